//! Log-probabilities in the two shapes of the API, for engines that report them.

use std::collections::BTreeMap;

use contract::{TokenChunk, TokenId};
use openai::{ChatLogprobs, ChatTokenLogprob, CompletionLogprobs, TopLogprob};
use preprocess::Preprocessor;

pub(crate) fn chat(preprocessor: &Preprocessor, chunk: &TokenChunk) -> ChatLogprobs {
    let content = chunk
        .tokens
        .iter()
        .zip(&chunk.logprobs)
        .map(|(&token, reported)| {
            let (text, bytes) = spell(preprocessor, token);
            let top_logprobs = reported.top.iter().map(|&(token, logprob)| {
                let (token, bytes) = spell(preprocessor, token);
                TopLogprob {
                    token,
                    logprob,
                    bytes: Some(bytes),
                }
            });
            ChatTokenLogprob {
                token: text,
                logprob: reported.logprob,
                bytes: Some(bytes),
                top_logprobs: top_logprobs.collect(),
            }
        });
    ChatLogprobs {
        content: content.collect(),
    }
}

/// Offsets begin at 0: [`append`] moves them to where the chunk's text really is.
pub(crate) fn completion(preprocessor: &Preprocessor, chunk: &TokenChunk) -> CompletionLogprobs {
    let mut lists = CompletionLogprobs::default();
    let mut offset = 0;
    for (&token, reported) in chunk.tokens.iter().zip(&chunk.logprobs) {
        let (text, _) = spell(preprocessor, token);
        let top: BTreeMap<String, f32> = reported
            .top
            .iter()
            .map(|&(token, logprob)| (spell(preprocessor, token).0, logprob))
            .collect();
        lists.text_offset.push(offset);
        offset += text.chars().count() as u32;
        lists.tokens.push(text);
        lists.token_logprobs.push(Some(reported.logprob));
        lists.top_logprobs.push(Some(top));
    }
    lists
}

pub(crate) fn append(lists: &mut CompletionLogprobs, more: CompletionLogprobs) {
    let end = match (lists.text_offset.last(), lists.tokens.last()) {
        (Some(offset), Some(token)) => offset + token.chars().count() as u32,
        _ => 0,
    };
    lists
        .text_offset
        .extend(more.text_offset.iter().map(|offset| end + offset));
    lists.tokens.extend(more.tokens);
    lists.token_logprobs.extend(more.token_logprobs);
    lists.top_logprobs.extend(more.top_logprobs);
}

fn spell(preprocessor: &Preprocessor, token: TokenId) -> (String, Vec<u8>) {
    let bytes = match preprocessor.tokenizer().token_bytes(token) {
        Some(bytes) => bytes.to_vec(),
        None => preprocessor.tokenizer().decode(&[token]).into_bytes(),
    };
    (String::from_utf8_lossy(&bytes).into_owned(), bytes)
}

#[cfg(test)]
mod tests {
    use contract::TokenLogprob;
    use preprocess::PreprocessConfig;

    use super::*;

    #[test]
    fn chunks_become_parallel_lists_with_running_offsets() {
        let preprocessor = Preprocessor::embedded(PreprocessConfig::default());
        let tokens = preprocessor.encode_plain("Hello there world").unwrap();
        let chunk = |token: TokenId| TokenChunk {
            tokens: [token].into_iter().collect(),
            logprobs: vec![TokenLogprob {
                logprob: -0.5,
                top: vec![(token, -0.5)],
            }],
            ..TokenChunk::default()
        };
        let mut lists = CompletionLogprobs::default();
        for &token in &tokens {
            append(&mut lists, completion(&preprocessor, &chunk(token)));
        }
        assert_eq!(lists.tokens.concat(), "Hello there world");
        assert_eq!(lists.text_offset, [0, 5, 11]);
        assert_eq!(lists.top_logprobs[0].as_ref().unwrap()["Hello"], -0.5);
        let chat = chat(&preprocessor, &chunk(tokens[1]));
        assert_eq!(chat.content[0].token, " there");
        assert_eq!(chat.content[0].bytes.as_deref(), Some(&b" there"[..]));
    }
}
