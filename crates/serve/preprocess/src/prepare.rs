//! The way in: a checked request becomes tokens with limits.
//!
//! Template, tokenizer and limits of one model behind one type. What leaves here is ready
//! for a worker: the prompt is not empty, every token is in the vocabulary, and prompt and
//! answer fit the context together.

mod context;
mod model_folder;
mod sampling;
mod single_file;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use answer_parser::{AnswerFormat, ReasoningFormat, ToolFormat};
use contract::{Grammar, HashSeed, OutputLimits, Sampling, TokenId};
use openai::{
    ChatRequest, CompletionRequest, GenerationOptions, Message, Prompt, ReasoningEffort, ToolChoice,
};

pub use self::context::ContextNeed;
use self::sampling::{Recommended, sampling};
use crate::conversation::{Conversation, Written, short_turns};
use crate::detokenize::Kept;
use crate::encode::{Bounds, Encoder, MIN_PIECE_BYTES};
use crate::error::{LoadError, PrepareError};
use crate::guard::Guard;
use crate::output::{self, Asked, Grammars, Manner};
use crate::piece_cache::{CacheStats, PieceCache};
use crate::template::{self, ChatTemplate};
use crate::text_stream::TextStream;
use crate::tokenizer::{Specials, Tokenizer};

/// What the preprocessor runs on.
#[derive(Clone, Debug)]
pub struct PreprocessConfig {
    /// Longest prompt plus answer. A model that states less wins.
    pub max_context_tokens: u32,
    /// What the cache of tokenised text may take.
    pub cache_bytes: usize,
    /// Whether the name of a special token in a message is that token, not text.
    pub parse_specials_in_content: bool,
    /// Instead of the model's own chat template.
    pub template: Option<TemplateFile>,
    /// How the model writes tool calls, and what it thinks; otherwise its template decides.
    pub tool_format: Option<ToolFormat>,
    pub reasoning_format: Option<ReasoningFormat>,
    /// For templates that print the date.
    pub clock: fn() -> SystemTime,
}

impl Default for PreprocessConfig {
    fn default() -> Self {
        Self {
            // Llama 3.1's own.
            max_context_tokens: 131_072,
            cache_bytes: 64 << 20,
            parse_specials_in_content: false,
            template: None,
            tool_format: None,
            reasoning_format: None,
            clock: SystemTime::now,
        }
    }
}

/// A chat template, and where it was read.
#[derive(Clone, Debug)]
pub struct TemplateFile {
    pub path: PathBuf,
    pub source: String,
}

/// A request in tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct Prepared {
    /// Not empty, and in the vocabulary.
    pub prompt: Arc<[TokenId]>,
    /// Fit the context together with the prompt.
    pub limits: OutputLimits,
    /// For workers whose context is shorter than the model's.
    pub need: ContextNeed,
    pub sampling: Sampling,
    /// How many alternatives to report for each token; `None` for no log-probabilities.
    pub logprobs: Option<u8>,
    /// Carries the request's cache salt.
    pub hash_seed: HashSeed,
    /// The only answers allowed; `None` for any.
    pub grammar: Option<Grammar>,
    /// Whether an answer outside the grammar would be wrong, and not only less likely right.
    pub grammar_required: bool,
    /// What clients get besides content.
    pub format: AnswerFormat,
    /// The tools that may be called.
    pub tool_names: Arc<[String]>,
}

/// A conversation in tokens.
struct Rendered {
    prompt: Vec<TokenId>,
    /// The answer begins in the middle of a thought.
    begins_in_reasoning: bool,
}

/// What a model's file says of its text.
#[derive(Clone, Copy, Debug)]
pub struct Vocabulary<'a> {
    /// In the format of Hugging Face's `tokenizers`.
    pub tokenizer_json: &'a str,
    pub chat_template: Option<&'a str>,
    /// The token that begins a text, for templates.
    pub bos: Option<&'a str>,
    /// Whether a text without a template begins with it too.
    pub add_bos: bool,
    /// Tokens that end an answer; the one that ends a text first.
    pub eos: &'a [String],
}

/// Text and tokens of one model. Shared by all requests.
#[derive(Debug)]
pub struct Preprocessor {
    encoder: Encoder,
    template: ChatTemplate,
    max_context_tokens: u32,
    parse_specials_in_content: bool,
    manner: Manner,
    renders_tools: bool,
    /// Whether the template has a variable for how much the model thinks.
    controls_reasoning: bool,
    grammars: Grammars,
    /// Special tokens that mark calls and reasoning.
    kept: Kept,
    /// What a message takes at least besides its text.
    message_tokens: usize,
    recommended: Recommended,
}

impl Preprocessor {
    /// The model that comes with the program.
    pub fn embedded(config: PreprocessConfig) -> Self {
        let tokenizer = Tokenizer::embedded();
        let (bos, eos) = (tokenizer.bos_text(), tokenizer.eos_text());
        let template = ChatTemplate::new(template::EMBEDDED, bos, eos, config.clock)
            .expect("the embedded template compiles");
        Self::new(tokenizer, template, &config)
    }

    /// The vocabulary that comes with the program, with the configured template.
    pub fn embedded_with_template(config: PreprocessConfig) -> Result<Self, LoadError> {
        let Some(given) = &config.template else {
            return Ok(Self::embedded(config));
        };
        let tokenizer = Tokenizer::embedded();
        let (bos, eos) = (tokenizer.bos_text(), tokenizer.eos_text());
        let template = given.compile(bos, eos, config.clock)?;
        Ok(Self::new(tokenizer, template, &config))
    }

    /// A model in Hugging Face's layout: `tokenizer.json`, `tokenizer_config.json`, and
    /// whatever else of it is there.
    pub fn from_dir(folder: &Path, config: PreprocessConfig) -> Result<Self, LoadError> {
        let model = model_folder::load(folder, config.template.as_ref(), config.clock)?;
        let stated = model.max_context_tokens.unwrap_or(u32::MAX);
        let max_context_tokens = config.max_context_tokens.min(stated);
        let config = PreprocessConfig {
            max_context_tokens,
            ..config
        };
        Ok(Self {
            recommended: model.recommended,
            ..Self::new(model.tokenizer, model.template, &config)
        })
    }

    /// A model whose one file holds everything. `path` names it in errors.
    pub fn from_vocabulary(
        path: &Path,
        vocabulary: &Vocabulary<'_>,
        config: PreprocessConfig,
    ) -> Result<Self, LoadError> {
        let given = config.template.as_ref();
        let (tokenizer, template) = single_file::load(path, vocabulary, given, config.clock)?;
        Ok(Self::new(tokenizer, template, &config))
    }

    fn new(tokenizer: Tokenizer, template: ChatTemplate, config: &PreprocessConfig) -> Self {
        let cache = PieceCache::new(config.cache_bytes);
        let source = template.source();
        let manner = Manner {
            tools: config
                .tool_format
                .or_else(|| ToolFormat::of_template(source)),
            reasoning: config
                .reasoning_format
                .or_else(|| ReasoningFormat::of_template(source)),
        };
        let tool_markers = manner.tools.map_or(&[][..], ToolFormat::markers);
        let thought_markers = manner.reasoning.map_or(&[][..], ReasoningFormat::markers);
        let markers = tool_markers.iter().chain(thought_markers);
        let kept = markers.filter_map(|name| Some((tokenizer.marker(name)?, (*name).to_owned())));
        Self {
            kept: kept.collect(),
            renders_tools: template.renders_tools(),
            controls_reasoning: source.contains("reasoning_effort")
                || source.contains("enable_thinking"),
            grammars: Grammars::default(),
            manner,
            message_tokens: message_tokens(&tokenizer, &template),
            encoder: Encoder::new(Arc::new(tokenizer), cache, MIN_PIECE_BYTES),
            template,
            max_context_tokens: config.max_context_tokens,
            parse_specials_in_content: config.parse_specials_in_content,
            recommended: Recommended::default(),
        }
    }

    /// The prompt of a conversation that an engine's own server renders with the same template.
    pub fn prompt_of_chat(&self, request: &ChatRequest) -> Result<Vec<TokenId>, PrepareError> {
        Ok(self.render(request)?.prompt)
    }

    /// The prompt of a completion, in the same way; the first of several.
    pub fn prompt_of_completion(
        &self,
        request: &CompletionRequest,
    ) -> Result<Vec<TokenId>, PrepareError> {
        match &request.prompts[..] {
            [] => Ok(Vec::new()),
            [Prompt::Text(text), ..] => self.encode_prompt(text),
            [Prompt::Tokens(tokens), ..] => Ok(tokens.clone()),
        }
    }

    /// Names of special tokens in messages are text, unless the configuration says otherwise.
    fn render(&self, request: &ChatRequest) -> Result<Rendered, PrepareError> {
        let conversation = Conversation::new(request)?;
        let bounds = self.bounds("messages");
        let written = conversation.texts();
        bounds.check_bytes(written.iter().map(|text| text.len()).sum())?;
        bounds.check_tokens(conversation.messages().saturating_mul(self.message_tokens))?;
        let tokenizer = self.encoder.tokenizer();
        let guard = match self.parse_specials_in_content {
            true => None,
            false => Guard::new(tokenizer.controls(), written.iter().copied())?,
        };
        let written = Written(guard.as_ref());
        let text = self.template.render_with(&conversation, written)?;
        let mut prompt = Vec::new();
        self.encoder
            .encode_prompt(&text, guard.as_ref(), bounds, &mut prompt)?;
        Ok(Rendered {
            prompt,
            begins_in_reasoning: self.manner.reasoning.is_some()
                && text.trim_end().ends_with("<think>"),
        })
    }

    /// A conversation that is answered with an answer in tokens.
    pub fn chat(&self, request: &ChatRequest) -> Result<Prepared, PrepareError> {
        self.check_supported(request)?;
        let Rendered {
            prompt,
            begins_in_reasoning,
        } = self.render(request)?;
        let tokenizer = self.encoder.tokenizer();
        let asked = Asked {
            request,
            manner: self.manner,
            begins_in_reasoning,
        };
        let grammar = self
            .grammars
            .of_chat(&asked, |name| tokenizer.marker(name))?;
        let calls = !request.tools.is_empty() && request.tool_choice != ToolChoice::None;
        let required = matches!(
            request.tool_choice,
            ToolChoice::Required | ToolChoice::Named(_)
        );
        Ok(Prepared {
            grammar,
            grammar_required: required || request.options.constraint.is_some(),
            format: AnswerFormat {
                tools: self.manner.tools.filter(|_| calls),
                reasoning: self.manner.reasoning,
                begins_in_reasoning,
            },
            tool_names: match calls {
                true => output::names(&request.tools),
                false => Arc::default(),
            },
            ..self.finish(prompt, &request.options, "messages")?
        })
    }

    /// What this model's template cannot express.
    fn check_supported(&self, request: &ChatRequest) -> Result<(), PrepareError> {
        let unsupported = |param, message: &str| {
            Err(PrepareError::Unsupported {
                param,
                message: message.to_owned(),
            })
        };
        if !request.tools.is_empty() && !self.renders_tools {
            let message = "this model's chat template has no place for tools";
            return unsupported("tools", message);
        }
        if !request.tools.is_empty() && self.manner.tools.is_none() {
            let message = "nobody knows how this model writes calls (an operator can start the \
                           server with --tool-call-parser)";
            return unsupported("tools", message);
        }
        if let Some(effort) = request.reasoning_effort
            && effort != ReasoningEffort::None
            && !self.controls_reasoning
        {
            let message = "this model's chat template has no control of reasoning";
            return unsupported("reasoning_effort", message);
        }
        Ok(())
    }

    fn bounds(&self, param: &'static str) -> Bounds {
        Bounds {
            limit: self.max_context_tokens,
            param,
        }
    }

    /// One result for each prompt, in order.
    pub fn completion(&self, request: &CompletionRequest) -> Result<Vec<Prepared>, PrepareError> {
        let single = request.prompts.len() == 1;
        let prepare = |(index, prompt): (usize, &Prompt)| {
            let prompt = match prompt {
                Prompt::Text(text) => self.encode_prompt(text)?,
                Prompt::Tokens(tokens) => {
                    self.check_tokens(tokens, || match single {
                        true => "prompt".to_owned(),
                        false => format!("prompt[{index}]"),
                    })?;
                    tokens.clone()
                }
            };
            let mut prepared = self.finish(prompt, &request.options, "prompt")?;
            if let Some(constraint) = &request.options.constraint {
                prepared.grammar = Some(self.grammars.of_completion(constraint)?);
                prepared.grammar_required = true;
            }
            Ok(prepared)
        };
        request.prompts.iter().enumerate().map(prepare).collect()
    }

    /// Detokenises one answer of this format. None of `stop` may be empty.
    pub fn text_stream(&self, stop: &[String], format: AnswerFormat) -> TextStream {
        let marked = format.tools.is_some() || format.reasoning.is_some();
        let kept = match marked {
            true => Arc::clone(&self.kept),
            false => Arc::default(),
        };
        TextStream::keeping(Arc::clone(self.encoder.tokenizer()), stop, kept)
    }

    /// What grammars are compiled for.
    pub fn grammar_vocabulary(&self) -> grammar::Vocabulary {
        let tokenizer = Arc::clone(self.encoder.tokenizer());
        grammar::Vocabulary::new(move || {
            let ends = tokenizer.eos_tokens().to_vec();
            (tokenizer.grammar_tokens(), ends)
        })
    }

    /// The tokens of a text as it stands: no template, no special tokens.
    pub fn encode_plain(&self, text: &str) -> Result<Vec<TokenId>, PrepareError> {
        let mut tokens = Vec::new();
        self.encoder.encode(text, Specials::Plain, &mut tokens)?;
        Ok(tokens)
    }

    pub fn tokenizer(&self) -> &Arc<Tokenizer> {
        self.encoder.tokenizer()
    }

    /// Longest prompt plus answer.
    pub fn max_context_tokens(&self) -> u32 {
        self.max_context_tokens
    }

    pub fn cache_stats(&self) -> CacheStats {
        self.encoder.cache_stats()
    }

    /// The text's tokens behind the token that starts every text, which a client that
    /// renders templates itself may have written already.
    fn encode_prompt(&self, text: &str) -> Result<Vec<TokenId>, PrepareError> {
        let tokenizer = self.encoder.tokenizer();
        let mut tokens = Vec::new();
        if let Some(bos) = tokenizer.bos()
            && !text.starts_with(tokenizer.bos_text())
        {
            tokens.push(bos);
        }
        self.encoder
            .encode_prompt(text, None, self.bounds("prompt"), &mut tokens)?;
        Ok(tokens)
    }

    fn check_tokens(
        &self,
        tokens: &[TokenId],
        param: impl FnOnce() -> String,
    ) -> Result<(), PrepareError> {
        let vocabulary = self.encoder.tokenizer().vocab_size();
        match tokens.iter().find(|&&id| id >= vocabulary) {
            None => Ok(()),
            Some(&id) => Err(PrepareError::UnknownToken {
                param: param(),
                id,
                vocabulary,
            }),
        }
    }

    fn finish(
        &self,
        prompt: Vec<TokenId>,
        options: &GenerationOptions,
        param: &'static str,
    ) -> Result<Prepared, PrepareError> {
        let need = ContextNeed {
            prompt_tokens: u32::try_from(prompt.len()).unwrap_or(u32::MAX),
            completion_tokens: options.max_tokens.unwrap_or(options.min_tokens),
            param,
        };
        let remaining = need.fits(self.max_context_tokens)?;
        let biased: Vec<TokenId> = options.logit_bias.iter().map(|(id, _)| *id).collect();
        self.check_tokens(&biased, || "logit_bias".to_owned())?;
        self.check_tokens(&options.stop_token_ids, || "stop_token_ids".to_owned())?;
        let own_ends = self.encoder.tokenizer().eos_tokens();
        let (ignore_eos, eos_tokens) = match &options.stop_token_ids[..] {
            [] => (options.ignore_eos, Arc::clone(own_ends)),
            // The client's own count even where the model's do not.
            stops if options.ignore_eos => (false, stops.into()),
            stops => (false, own_ends.iter().chain(stops).copied().collect()),
        };
        Ok(Prepared {
            prompt: prompt.into(),
            limits: OutputLimits {
                max_tokens: options.max_tokens.unwrap_or(remaining),
                min_tokens: options.min_tokens,
                ignore_eos,
                eos_tokens,
            },
            need,
            grammar: None,
            grammar_required: false,
            format: AnswerFormat::default(),
            tool_names: Arc::default(),
            sampling: sampling(options, self.recommended),
            logprobs: options.logprobs,
            hash_seed: HashSeed::new("", options.extensions.cache_salt.as_deref().unwrap_or("")),
        })
    }
}

impl TemplateFile {
    fn compile(
        &self,
        bos: &str,
        eos: &str,
        clock: fn() -> SystemTime,
    ) -> Result<ChatTemplate, LoadError> {
        let compiled = ChatTemplate::new(&self.source, bos, eos, clock);
        compiled.map_err(|reason| LoadError::Template {
            path: self.path.clone(),
            reason,
        })
    }
}

/// What a template adds to each message, by its own example, and half of that to be on the safe
/// side: it may write less for another role. At least one token.
fn message_tokens(tokenizer: &Tokenizer, template: &ChatTemplate) -> usize {
    let turns = short_turns();
    let length = |turns: &[Message]| {
        let text = template.render(turns).ok()?;
        let tokens = tokenizer.encode(&text, Specials::Parse).ok()?;
        Some(tokens.len())
    };
    let (Some(long), Some(short)) = (length(&turns), length(&turns[..1])) else {
        return 1;
    };
    (long.saturating_sub(short) / 4).max(1)
}
