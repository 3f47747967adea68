//! Which answers the bank chooses.

use contract::{HashSeed, OutputLimits, RequestId, Sampling};

use super::*;

const EOS: TokenId = 500;

const LENGTHS: AnswerLength = AnswerLength {
    mean: 60.0,
    spread: 10.0,
    min: 30,
    max: 90,
};

fn request(prompt: &[TokenId]) -> GenerateRequest {
    GenerateRequest {
        id: RequestId::new("test"),
        nonce: 0,
        trace: None,
        prompt: prompt.into(),
        answered: std::sync::Arc::default(),
        hash_seed: HashSeed::BASE,
        limits: OutputLimits {
            max_tokens: 1_000,
            min_tokens: 0,
            ignore_eos: false,
            eos_tokens: [EOS, 501].into(),
        },
        sampling: Sampling::default(),
        logprobs: None,
        grammar: None,
    }
}

/// Four articles of five passages. Passage `p` of article `a` has ten tokens: `1`, which is
/// everywhere, eight of the article's ten, and the passage's own `100 + 10a + p`.
fn bank() -> AnswerBank {
    let passage = |article: u32, passage: u32| {
        let subject = (0..8).map(|word| 200 + 10 * article + word);
        let own = 100 + 10 * article + passage;
        std::iter::once(1).chain(subject).chain([own]).collect()
    };
    let article = |article| (0..5).map(|p| passage(article, p)).collect();
    AnswerBank::new(vec![vec![90, 91]], (0..4).map(article).collect())
}

fn say(bank: &AnswerBank, request: &GenerateRequest, stream: u64) -> Vec<TokenId> {
    let answer = bank.answer(request, stream, LENGTHS, 42);
    let mut tokens = Vec::new();
    loop {
        let (token, last) = bank.token(&answer, request, tokens.len());
        if last {
            assert_eq!(token, EOS);
            return tokens;
        }
        tokens.push(token);
        assert!(tokens.len() < 1_000, "the answer does not end");
    }
}

#[test]
fn an_answer_is_marked_and_stays_in_its_article() {
    let bank = bank();
    for stream in 0..50 {
        let answer = say(&bank, &request(&[1, 112]), stream);
        assert_eq!(answer[..2], [90, 91], "it begins with the mark");
        let own = answer.iter().filter(|&&token| (100..200).contains(&token));
        assert!(
            own.clone().all(|token| (110..115).contains(token)),
            "another article"
        );
        let passages: Vec<u32> = own.map(|token| token - 110).collect();
        assert_eq!(passages[0], 2, "it begins where the question points");
        assert!(
            passages.windows(2).all(|pair| pair[1] == (pair[0] + 1) % 5),
            "{passages:?}"
        );
    }
}

#[test]
fn answers_end_with_a_passage_and_vary_in_length() {
    let bank = bank();
    let lengths: Vec<usize> = (0..400)
        .map(|stream| say(&bank, &request(&[112]), stream).len())
        .collect();
    assert!(
        lengths
            .iter()
            .all(|&length| (30..=90).contains(&length) && length % 10 == 2)
    );
    let mean = lengths.iter().sum::<usize>() as f64 / 400.0;
    assert!((mean - 60.0).abs() < 3.0, "{mean}");
    assert!(lengths.iter().any(|&length| length != lengths[0]));
}

#[test]
fn the_question_outweighs_what_was_said_before() {
    let bank = bank();
    // Much talk about article 0, then a question about article 3.
    let mut prompt: Vec<TokenId> = (0..150).map(|i| 100 + i % 5).collect();
    prompt.extend(std::iter::repeat_n(7, 62));
    prompt.extend([132, 134]);
    let starts: std::collections::BTreeSet<usize> = (0..30)
        .map(|stream| bank.choose_passage(&prompt, stream))
        .collect();
    assert!(starts.contains(&17) && starts.contains(&19), "{starts:?}");
    assert!(
        starts.iter().all(|start| (15..20).contains(start)),
        "{starts:?}"
    );
}

#[test]
fn with_nothing_in_common_any_passage_will_do() {
    let bank = bank();
    let starts: std::collections::BTreeSet<usize> = (0..200)
        .map(|draw| bank.choose_passage(&[1, 1, 7, 999_999], draw))
        .collect();
    assert_eq!(starts.len(), 20);
}

#[test]
fn whoever_may_not_stop_keeps_going() {
    let bank = bank();
    let mut asked = request(&[112]);
    let answer = bank.answer(&asked, 1, LENGTHS, 42);
    asked.limits.min_tokens = 300;
    let ends = |asked: &GenerateRequest| {
        (0..1_000).find(|&position| bank.token(&answer, asked, position).1)
    };
    assert_eq!(ends(&asked), Some(300));
    asked.limits.ignore_eos = true;
    assert_eq!(ends(&asked), None);
    asked.limits.ignore_eos = false;
    asked.limits.eos_tokens = [].into();
    assert_eq!(ends(&asked), None);
}

#[test]
fn an_empty_bank_speaks_in_the_prompts_words() {
    let bank = AnswerBank::default();
    let prompt = [3, EOS, 4, 501, 5];
    let answer = say(&bank, &request(&prompt), 9);
    assert!((30..=90).contains(&answer.len()));
    for word in [3, 4, 5] {
        assert!(answer.contains(&word));
    }
    assert!(
        answer.iter().all(|token| [3, 4, 5].contains(token)),
        "no end in the middle"
    );
    assert_eq!(answer, say(&bank, &request(&prompt), 9));
    assert_ne!(answer, say(&bank, &request(&prompt), 10));
}

#[test]
fn lengths_follow_the_profile() {
    let lengths = AnswerLength {
        mean: 830.0,
        spread: 150.0,
        min: 300,
        max: 1_300,
    };
    let draws: Vec<f64> = (0..20_000)
        .map(|stream| lengths.draw(1, stream) as f64)
        .collect();
    let mean = draws.iter().sum::<f64>() / draws.len() as f64;
    let variance = draws.iter().map(|draw| (draw - mean).powi(2)).sum::<f64>();
    let spread = (variance / draws.len() as f64).sqrt();
    assert!((mean - 830.0).abs() < 5.0, "{mean}");
    assert!((spread - 150.0).abs() < 5.0, "{spread}");
}

#[test]
fn requests_that_ask_the_same_begin_differently_if_their_streams_do() {
    let article = vec![(1000..1200).collect()];
    let openings = (0..50).map(|number| vec![90, number]).collect();
    let bank = AnswerBank::new(openings, vec![article]);
    let request = request(&[1000, 1001]);
    let begins: std::collections::BTreeSet<_> = (0..40)
        .map(|stream| say(&bank, &request, stream)[..2].to_vec())
        .collect();
    assert!(begins.len() > 20, "{}", begins.len());
    assert!(begins.iter().all(|begin| begin[0] == 90));
    assert_eq!(say(&bank, &request, 7), say(&bank, &request, 7));
}
