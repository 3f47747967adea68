//! What a request asks, in any of the APIs, and in tokens.

use bytes::Bytes;
use openai::{
    ChatRequest, CompletionRequest, GenerationOptions, Prompt, UnknownFields, messages, responses,
};
use preprocess::{Prepared, Preprocessor};

use crate::App;
use crate::error::ApiError;
use crate::metrics::Endpoint;
use crate::shape::{Responded, Shape};

/// A body that has been read.
pub(crate) struct ReadBody<'a> {
    pub(crate) endpoint: Endpoint,
    pub(crate) bytes: &'a Bytes,
}

/// A request of any of the APIs.
pub(crate) struct AnyRequest {
    pub(crate) asked: Asked,
    shape: Shape,
}

#[derive(Debug)]
pub(crate) enum Asked {
    Chat(Box<ChatRequest>),
    Completion(Box<CompletionRequest>),
}

impl AnyRequest {
    /// `owner` is whose stored conversations it may continue.
    pub(crate) fn parse(
        app: &App,
        endpoint: Endpoint,
        body: &[u8],
        owner: &str,
        unknown: UnknownFields,
    ) -> Result<Self, ApiError> {
        let chat = |chat| Asked::Chat(Box::new(chat));
        Ok(match endpoint {
            Endpoint::Chat => Self {
                asked: chat(ChatRequest::parse(body, unknown)?),
                shape: Shape::Chat,
            },
            Endpoint::Completions => Self {
                asked: Asked::Completion(Box::new(CompletionRequest::parse(body, unknown)?)),
                shape: Shape::Completions,
            },
            Endpoint::Responses => {
                let request = responses::parse(body, unknown)?;
                let earlier = match request.previous_response_id() {
                    None => Vec::new(),
                    Some(id) => {
                        let known = app.responses.lock().conversation(owner, id);
                        known.ok_or_else(|| ApiError::unknown_response(id))?
                    }
                };
                let turn = request.with_history(earlier);
                Self {
                    asked: chat(turn.chat),
                    shape: Shape::Responses(Box::new(Responded {
                        echo: turn.echo,
                        owner: owner.to_owned(),
                        added: turn.added,
                    })),
                }
            }
            Endpoint::Messages => {
                let request = messages::parse(body, unknown, app.normalize_agents)?;
                Self {
                    asked: chat(request.chat),
                    shape: Shape::Messages {
                        omit_thinking: request.omit_thinking,
                        normalized: request.normalized,
                    },
                }
            }
            Endpoint::Embeddings | Endpoint::Rerank | Endpoint::Tokenize | Endpoint::Detokenize => {
                return Err(ApiError::no_endpoint(endpoint.engine_path().as_str()));
            }
        })
    }

    pub(crate) fn model(&self) -> &str {
        match &self.asked {
            Asked::Chat(request) => &request.model,
            Asked::Completion(request) => &request.model,
        }
    }

    /// Whether it goes on with a conversation that only we have.
    pub(crate) fn continues_ours(&self) -> bool {
        match &self.shape {
            Shape::Responses(responded) => responded.echo.previous_response_id.is_some(),
            Shape::Chat | Shape::Completions | Shape::Messages { .. } => false,
        }
    }

    pub(crate) fn options(&self) -> &GenerationOptions {
        match &self.asked {
            Asked::Chat(request) => &request.options,
            Asked::Completion(request) => &request.options,
        }
    }

    /// The prompts in tokens, and what else is needed from here on. What was sent may be large
    /// and goes with `self`.
    pub(crate) fn prepare(self, preprocessor: &Preprocessor) -> Result<Ready, ApiError> {
        let echoes = self.echoes(preprocessor);
        let (prepared, options) = match self.asked {
            Asked::Chat(request) => (vec![preprocessor.chat(&request)?], request.options),
            Asked::Completion(request) => (preprocessor.completion(&request)?, request.options),
        };
        Ok(Ready {
            prepared,
            options,
            echoes,
            shape: self.shape,
        })
    }

    fn echoes(&self, preprocessor: &Preprocessor) -> Vec<String> {
        match &self.asked {
            Asked::Completion(request) if request.echo => {
                let text = |prompt: &Prompt| match prompt {
                    Prompt::Text(text) => text.clone(),
                    Prompt::Tokens(tokens) => preprocessor.tokenizer().decode(tokens),
                };
                request.prompts.iter().map(text).collect()
            }
            Asked::Completion(_) | Asked::Chat(_) => Vec::new(),
        }
    }
}

/// A request in tokens.
pub(crate) struct Ready {
    pub(crate) prepared: Vec<Prepared>,
    pub(crate) options: GenerationOptions,
    pub(crate) echoes: Vec<String>,
    pub(crate) shape: Shape,
}
