//! Grammars over a vocabulary of bytes and a few longer tokens.

use contract::random::Random;
use contract::{Grammar, TokenId};
use serde_json::{Value, json};

use super::*;

/// Single bytes, some words, and the token that ends an answer.
fn vocabulary() -> Vocabulary {
    Vocabulary::new(|| {
        let bytes = (0..=255).map(|byte| Token::Text(vec![byte]));
        let words = ["\": ", ", \"", "true", "name", "\"}", "<call>"];
        let words = words.map(|word| Token::Text(word.as_bytes().to_vec()));
        let mut tokens: Vec<Token> = bytes.chain(words).collect();
        tokens.push(Token::Special("<|marker|>".to_owned()));
        tokens.push(Token::Unused);
        tokens.push(Token::Special("<|end|>".to_owned()));
        let end = tokens.len() as TokenId - 1;
        (tokens, vec![end])
    })
}

const MARKER: TokenId = 262;
const END: TokenId = 264;

fn schema(schema: &Value) -> Grammar {
    Grammar::JsonSchema(schema.to_string().into())
}

fn text(tokens: &[TokenId]) -> String {
    let words = ["\": ", ", \"", "true", "name", "\"}", "<call>"];
    let mut bytes = Vec::new();
    for &token in tokens {
        match token {
            0..=255 => bytes.push(token as u8),
            256..=261 => bytes.extend_from_slice(words[token as usize - 256].as_bytes()),
            _ => {}
        }
    }
    String::from_utf8(bytes).unwrap()
}

/// A random walk that ends where it may.
fn walk(vocabulary: &Vocabulary, grammar: &Grammar, seed: u64) -> Option<Vec<TokenId>> {
    let mut matcher = vocabulary.matcher(grammar).unwrap();
    let mut random = Random::new(seed);
    let mut answer = Vec::new();
    for _ in 0..2000 {
        let mask = matcher.mask().unwrap();
        if mask.allows(END) {
            return Some(answer);
        }
        // Strings come to their end sooner or later.
        let quote = TokenId::from(b'"');
        let token = match mask.allows(quote) && random.below(3) == 0 {
            true => quote,
            false => mask.tokens().nth(random.below(mask.count())).unwrap(),
        };
        matcher.consume(token).unwrap();
        answer.push(token);
    }
    None
}

#[test]
fn every_answer_that_ends_fits_its_schema() {
    let vocabulary = vocabulary();
    let grammar = schema(&json!({
        "type": "object",
        "properties": {
            "name": { "type": "string", "maxLength": 12 },
            "flag": { "type": "boolean" },
            "list": { "type": "array", "items": { "enum": ["a", "b"] }, "maxItems": 3 },
        },
        "required": ["name", "flag", "list"],
        "additionalProperties": false,
    }));
    let mut ended = 0;
    for seed in 0..50 {
        let Some(answer) = walk(&vocabulary, &grammar, seed) else {
            continue;
        };
        ended += 1;
        let value: Value = serde_json::from_str(&text(&answer)).unwrap();
        assert!(value["name"].as_str().unwrap().chars().count() <= 12);
        assert!(value["flag"].is_boolean());
        let list = value["list"].as_array().unwrap();
        assert!(list.len() <= 3 && list.iter().all(|one| *one == "a" || *one == "b"));
        let keys: Vec<&String> = value.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["name", "flag", "list"], "in the schema's order");
    }
    assert_eq!(ended, 50);
}

#[test]
fn the_end_is_allowed_only_where_the_grammar_is_complete() {
    let vocabulary = vocabulary();
    let grammar = Grammar::Regex("ab?".into());
    let mut matcher = vocabulary.matcher(&grammar).unwrap();
    let allowed = |matcher: &mut Matcher| matcher.mask().unwrap().tokens().collect::<Vec<_>>();
    assert_eq!(allowed(&mut matcher), [97]);
    matcher.consume(97).unwrap();
    assert_eq!(allowed(&mut matcher), [98, END]);
    matcher.consume(98).unwrap();
    assert_eq!(allowed(&mut matcher), [END]);
    matcher.consume(END).unwrap();
    assert_eq!(allowed(&mut matcher), [END], "and nothing else ever after");
}

#[test]
fn a_mask_makes_other_tokens_impossible() {
    let vocabulary = vocabulary();
    let mut matcher = vocabulary.matcher(&Grammar::Regex("[xy]".into())).unwrap();
    // Models have more logits than tokens.
    let mut logits = vec![0.5; 300];
    matcher.mask().unwrap().apply(&mut logits);
    let possible: Vec<usize> = (0..300).filter(|id| logits[*id].is_finite()).collect();
    assert_eq!(possible, [usize::from(b'x'), usize::from(b'y')]);
}

#[test]
fn special_tokens_come_only_where_they_are_named() {
    let vocabulary = vocabulary();
    let mut any = vocabulary
        .matcher(&Grammar::Regex("(.|\\n)*".into()))
        .unwrap();
    assert!(!any.mask().unwrap().allows(MARKER));
    let lark = Grammar::Lark("start: <|marker|> \"x\"".into());
    let mut named = vocabulary.matcher(&lark).unwrap();
    assert_eq!(named.mask().unwrap().tokens().collect::<Vec<_>>(), [MARKER]);
    named.consume(MARKER).unwrap();
    assert!(named.mask().unwrap().allows(TokenId::from(b'x')));
}

#[test]
fn what_is_no_grammar_is_refused_with_a_reason() {
    for (grammar, expected) in [
        (schema(&json!({ "type": "strange" })), "strange"),
        (schema(&json!({ "$ref": "#/nowhere" })), "nowhere"),
        (
            schema(&json!({ "allOf": [{ "type": "string" }, { "type": "object" }] })),
            "nsatisfiable",
        ),
        (schema(&json!(false)), "nsatisfiable"),
        (Grammar::Regex("a(".into()), "unclosed group"),
        (Grammar::Lark("start: missing".into()), "missing"),
        (Grammar::JsonSchema("{".into()), "EOF"),
    ] {
        let error = check(&grammar).unwrap_err().to_string();
        assert!(error.contains(expected), "{grammar:?}: {error}");
        assert!(error.len() < 1700, "{error}");
        assert!(vocabulary().compile(&grammar).is_err());
    }
    for good in [json!({}), json!(true), json!({ "type": "object" })] {
        check(&schema(&good)).unwrap();
    }
}

#[test]
fn a_grammar_that_takes_too_much_fails_alone() {
    let long = Grammar::Regex("a".repeat(2 << 20).into());
    assert!(check(&long).unwrap_err().to_string().contains("bytes"));
    // Its automaton has two to the 24 states: the walk ends with an error and not with the memory.
    let vocabulary = vocabulary();
    let many = Grammar::Regex("(a|b)*a(a|b){24}c".into());
    let mut matcher = vocabulary.matcher(&many).unwrap();
    let mut random = Random::new(1);
    for _ in 0..200_000 {
        let token = TokenId::from(b"ab"[random.below(2)]);
        if matcher.mask().and_then(|_| matcher.consume(token)).is_err() {
            break;
        }
    }
    // Others are not concerned.
    let mut other = vocabulary.matcher(&Grammar::Regex("x".into())).unwrap();
    assert!(other.mask().unwrap().allows(TokenId::from(b'x')));
}

#[test]
fn an_answer_is_followed_again_in_another_slot() {
    let shared = std::sync::Arc::new(vocabulary());
    let request = contract::GenerateRequest {
        id: contract::RequestId::new("r"),
        nonce: 0,
        trace: None,
        prompt: std::sync::Arc::new([1]),
        answered: std::sync::Arc::default(),
        hash_seed: contract::HashSeed::BASE,
        limits: contract::OutputLimits {
            max_tokens: 9,
            min_tokens: 0,
            ignore_eos: false,
            eos_tokens: std::sync::Arc::new([END]),
        },
        sampling: contract::Sampling::default(),
        logprobs: None,
        grammar: Some(Grammar::Regex("abc".into())),
    };
    let mut slots = SlotMatchers::new(Some(shared));
    let next = |slots: &mut SlotMatchers, slot, sequence, answer: &[TokenId]| {
        let mut follower = slots
            .follow(slot, sequence, &request, answer)
            .unwrap()
            .unwrap();
        let token = follower.matcher().mask().unwrap().tokens().next().unwrap();
        follower.consume(token).unwrap();
        token
    };
    assert_eq!(next(&mut slots, 0, 7, &[]), 97);
    assert_eq!(next(&mut slots, 0, 7, &[97]), 98);
    assert_eq!(next(&mut slots, 3, 7, &[97, 98]), 99, "moved");
    assert_eq!(next(&mut slots, 0, 8, &[]), 97, "another sequence");
    let wrong = slots.follow(1, 9, &request, &[120]).unwrap_err();
    assert!(!wrong.to_string().is_empty());
    let mut none = SlotMatchers::default();
    assert!(none.follow(0, 1, &request, &[]).is_err());
}

/// Random tokens until the matcher fails or `most` were drawn: how many they were, and the failure.
fn tokens_until_failure(grammar: &Grammar, most: usize) -> (usize, Option<GrammarError>) {
    let vocabulary = vocabulary();
    let mut matcher = vocabulary.matcher(grammar).unwrap();
    let mut random = Random::new(1);
    for drawn in 0..most {
        let mask = match matcher.mask() {
            Ok(mask) => mask,
            Err(error) => return (drawn, Some(error)),
        };
        let tokens: Vec<TokenId> = mask.tokens().filter(|&token| token != END).collect();
        if tokens.is_empty() {
            return (drawn, None);
        }
        matcher.consume(tokens[random.below(tokens.len())]).unwrap();
    }
    (most, None)
}

#[test]
fn an_ambiguous_grammar_fails_before_it_is_slow() {
    for source in [
        "start: e\ne: e e | \"a\" | \"a\" e\n",
        "start: e\ne: e e e | e e | \"a\" | \"b\"\n",
    ] {
        let (drawn, failure) = tokens_until_failure(&Grammar::Lark(source.into()), 1000);
        assert!((20..400).contains(&drawn), "{drawn} tokens of {source}");
        assert_eq!(failure, Some(GrammarError::too_ambiguous()));
    }
}

#[test]
fn wide_and_long_grammars_are_within_the_budget() {
    let names = |count: usize| (0..count).map(|number| format!("name_{number}"));
    let tools = names(128).map(|name| {
        json!({
            "type": "object",
            "properties": {
                "name": { "const": name },
                "arguments": { "type": "object", "properties": { "a": { "type": "string" } } },
            },
            "required": ["name", "arguments"],
        })
    });
    let optional: serde_json::Map<String, Value> = names(300)
        .map(|name| (name, json!({ "type": "string", "maxLength": 2 })))
        .collect();
    let wide = json!({ "type": "object", "properties": optional });
    for grammar in [
        schema(
            &json!({ "type": "array", "minItems": 50, "items": { "anyOf": tools.collect::<Vec<_>>() } }),
        ),
        schema(&json!({ "type": "array", "minItems": 50, "items": wide })),
        schema(&json!({ "type": "array", "minItems": 500, "items": { "type": "object" } })),
        Grammar::Lark("start: e\ne: e \"+\" e | e \"*\" e | \"a\" | \"(\" e \")\"\n".into()),
    ] {
        let (drawn, failure) = tokens_until_failure(&grammar, 2000);
        assert_eq!((drawn, failure), (2000, None), "{grammar:?}");
    }
}
