//! Log-probabilities in the two shapes of the API, for engines that report them.
//!
//! They gather here until the text of their tokens goes out: an event may carry those of
//! several tokens, and none is left behind with text that was held back.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use contract::{TokenChunk, TokenId, TokenLogprob};
use openai::{ChatLogprobs, ChatTokenLogprob, CompletionLogprobs, TopLogprob};
use preprocess::Tokenizer;
use preprocess::detokenize::Detokenizer;

use crate::metrics::Endpoint;

/// Those of one answer that have not gone out.
#[derive(Debug)]
pub(crate) struct Gathered {
    tokenizer: Arc<Tokenizer>,
    lists: Lists,
}

#[derive(Debug)]
enum Lists {
    Chat(ChatLogprobs),
    Completion(Box<Completion>),
}

/// In the shape of the endpoint that asked.
#[derive(Debug)]
pub(crate) enum Taken {
    Chat(ChatLogprobs),
    Completion(CompletionLogprobs),
}

impl Taken {
    pub(crate) fn as_event(&self) -> openai::Logprobs<'_> {
        match self {
            Self::Chat(lists) => openai::Logprobs::Chat(lists),
            Self::Completion(lists) => openai::Logprobs::Completion(lists),
        }
    }

    pub(crate) fn chat(self) -> Option<ChatLogprobs> {
        match self {
            Self::Chat(lists) => Some(lists),
            Self::Completion(_) => None,
        }
    }

    pub(crate) fn completion(self) -> Option<CompletionLogprobs> {
        match self {
            Self::Completion(lists) => Some(lists),
            Self::Chat(_) => None,
        }
    }
}

#[derive(Debug)]
struct Completion {
    lists: CompletionLogprobs,
    /// The prompt's tokens, where it is echoed and its tokens have not been listed.
    echoed: Option<Arc<[TokenId]>>,
    /// Counts the characters of the text, the echoed prompt's included.
    text: Detokenizer,
    characters: u32,
}

impl Gathered {
    /// `echoed` is the prompt, if the answer begins with it.
    pub(crate) fn new(
        endpoint: Endpoint,
        tokenizer: &Arc<Tokenizer>,
        echoed: Option<Arc<[TokenId]>>,
    ) -> Self {
        let lists = match endpoint == Endpoint::Completions {
            true => Lists::Completion(Box::new(Completion {
                lists: CompletionLogprobs::default(),
                echoed,
                text: Detokenizer::new(Arc::clone(tokenizer)),
                characters: 0,
            })),
            false => Lists::Chat(ChatLogprobs::default()),
        };
        Self {
            tokenizer: Arc::clone(tokenizer),
            lists,
        }
    }

    /// Adds what a chunk says of its tokens.
    pub(crate) fn add(&mut self, chunk: &TokenChunk) {
        for (&token, reported) in chunk.tokens.iter().zip(&chunk.logprobs) {
            match &mut self.lists {
                Lists::Chat(lists) => {
                    lists
                        .content
                        .push(chat_entry(&self.tokenizer, token, reported))
                }
                Lists::Completion(completion) => {
                    completion.add_echoed(&self.tokenizer);
                    completion.add(&self.tokenizer, token, Some(reported));
                }
            }
        }
    }

    /// What has gathered since the last time, if anything has.
    pub(crate) fn take(&mut self) -> Option<Taken> {
        match &mut self.lists {
            Lists::Chat(lists) if lists.content.is_empty() => None,
            Lists::Chat(lists) => Some(Taken::Chat(std::mem::take(lists))),
            Lists::Completion(completion) if completion.lists.tokens.is_empty() => None,
            Lists::Completion(completion) => {
                let lists = std::mem::take(&mut completion.lists);
                Some(Taken::Completion(lists))
            }
        }
    }
}

impl Completion {
    /// Lists the echoed prompt's tokens, whose probabilities nobody computes.
    fn add_echoed(&mut self, tokenizer: &Tokenizer) {
        for &token in self.echoed.take().iter().flat_map(|prompt| prompt.iter()) {
            // What the text does not show is not listed either.
            if !tokenizer.is_special(token) {
                self.add(tokenizer, token, None);
            }
        }
    }

    fn add(&mut self, tokenizer: &Tokenizer, token: TokenId, reported: Option<&TokenLogprob>) {
        let spelled = |token| spell_ascii(tokenizer, token);
        self.lists.text_offset.push(self.characters);
        self.lists.tokens.push(spelled(token));
        self.lists
            .token_logprobs
            .push(reported.map(|reported| reported.logprob));
        self.lists.top_logprobs.push(reported.map(|reported| {
            let top = reported
                .top
                .iter()
                .map(|&(one, logprob)| (spelled(one), logprob));
            let mut top: BTreeMap<String, f32> = top.collect();
            // The token itself is always among them, likely or not.
            top.insert(spelled(token), reported.logprob);
            top
        }));
        let mut text = String::new();
        self.text.push(token, &mut text);
        self.characters += text.chars().count() as u32;
    }
}

fn chat_entry(tokenizer: &Tokenizer, token: TokenId, reported: &TokenLogprob) -> ChatTokenLogprob {
    let spelled = |token| {
        let bytes = bytes_of(tokenizer, token);
        (String::from_utf8_lossy(&bytes).into_owned(), Some(bytes))
    };
    let top_logprobs = reported.top.iter().map(|&(token, logprob)| {
        let (token, bytes) = spelled(token);
        TopLogprob {
            token,
            logprob,
            bytes,
        }
    });
    let top_logprobs = top_logprobs.collect();
    let (token, bytes) = spelled(token);
    ChatTokenLogprob {
        token,
        logprob: reported.logprob,
        bytes,
        top_logprobs,
    }
}

/// A token's text; of a token that is part of a character its bytes, as OpenAI spells them.
fn spell_ascii(tokenizer: &Tokenizer, token: TokenId) -> String {
    String::from_utf8(bytes_of(tokenizer, token)).unwrap_or_else(|error| {
        let mut spelled = "bytes:".to_owned();
        for byte in error.as_bytes() {
            write!(spelled, "\\x{byte:02x}").expect("a string takes everything");
        }
        spelled
    })
}

fn bytes_of(tokenizer: &Tokenizer, token: TokenId) -> Vec<u8> {
    match tokenizer.token_bytes(token) {
        Some(bytes) => bytes.to_vec(),
        None => tokenizer.decode(&[token]).into_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use preprocess::{PreprocessConfig, Preprocessor};

    use super::*;

    fn chunk(token: TokenId) -> TokenChunk {
        TokenChunk {
            tokens: [token].into_iter().collect(),
            logprobs: vec![TokenLogprob {
                logprob: -0.5,
                top: vec![(token ^ 1, -0.25)],
            }],
            ..TokenChunk::default()
        }
    }

    fn completion(prompt: Option<&str>, answer: &str) -> CompletionLogprobs {
        let preprocessor = Preprocessor::embedded(PreprocessConfig::default());
        let encode = |text| preprocessor.encode_plain(text).unwrap();
        let echoed = prompt.map(|prompt| encode(prompt).into());
        let mut gathered = Gathered::new(Endpoint::Completions, preprocessor.tokenizer(), echoed);
        assert!(gathered.take().is_none());
        for token in encode(answer) {
            gathered.add(&chunk(token));
        }
        gathered.take().unwrap().completion().unwrap()
    }

    #[test]
    fn chunks_become_parallel_lists_with_running_offsets() {
        let lists = completion(None, "Hello there world");
        assert_eq!(lists.tokens.concat(), "Hello there world");
        assert_eq!(lists.text_offset, [0, 5, 11]);
    }

    #[test]
    fn the_token_itself_is_among_the_likely_ones() {
        let lists = completion(None, "Hello");
        let top = lists.top_logprobs[0].as_ref().unwrap();
        assert_eq!(top["Hello"], -0.5);
        assert_eq!(top.len(), 2);
    }

    #[test]
    fn offsets_count_whole_characters_and_the_echoed_prompt() {
        let lists = completion(Some("Say"), "ok 🦜 ok");
        let text = "Sayok 🦜 ok";
        assert_eq!(lists.text_offset[0], 0);
        assert_eq!(lists.token_logprobs[0], None);
        assert_eq!(lists.tokens[0], "Say");
        let known = lists.token_logprobs.iter().position(Option::is_some);
        assert_eq!(lists.text_offset[known.unwrap()], 3);
        let last = *lists.text_offset.last().unwrap() as usize;
        let end: String = text.chars().skip(last).collect();
        assert_eq!(Some(&end), lists.tokens.last());
        assert!(
            lists
                .tokens
                .iter()
                .any(|token| token.starts_with("bytes:\\x"))
        );
    }

    #[test]
    fn what_was_taken_does_not_come_again() {
        let preprocessor = Preprocessor::embedded(PreprocessConfig::default());
        let tokens = preprocessor.encode_plain("Hello there").unwrap();
        let mut gathered = Gathered::new(Endpoint::Chat, preprocessor.tokenizer(), None);
        for &token in &tokens {
            gathered.add(&chunk(token));
            let taken = gathered.take().unwrap().chat().unwrap();
            assert_eq!(taken.content.len(), 1);
        }
        assert!(gathered.take().is_none());
        gathered.add(&chunk(tokens[1]));
        let taken = gathered.take().unwrap().chat().unwrap();
        assert_eq!(taken.content[0].token, " there");
        assert_eq!(taken.content[0].bytes.as_deref(), Some(&b" there"[..]));
    }
}
