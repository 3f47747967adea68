//! What a user asks next, written from the last answer without a model.
//!
//! A sentence of the answer is quoted and asked about. Which one, and how, is drawn from the
//! seed and the place in the conversation, so that a run can be repeated.

use contract::random::mix;

const SENTENCE: u64 = 9;
const QUESTION: u64 = 10;

/// Words of a quoted sentence: fewer say nothing, more repeat the answer.
const FEWEST_WORDS: usize = 5;
const MOST_WORDS: usize = 28;

/// Asked when the answer has nothing to quote.
pub const PLAIN_QUESTION: &str = "Can you say more about the last point, with an example?";

const QUESTIONS: [&str; 6] = [
    "You said: \"{}\" Why is that so?",
    "I would like to understand this better: \"{}\" Can you give an example with numbers?",
    "What would change if this were not true: \"{}\"",
    "You mention this: \"{}\" What can go wrong there in practice?",
    "How would you check for yourself that this holds: \"{}\"",
    "Please go into the details of this: \"{}\"",
];

/// Where in which conversation the user speaks.
#[derive(Clone, Copy, Debug)]
pub struct TurnPosition {
    pub seed: u64,
    pub conversation: u64,
    pub turn: u32,
}

/// A question about `answer`.
pub fn question(answer: &str, place: TurnPosition) -> String {
    let draw = |what: u64, choices: usize| {
        let draw = mix(place.seed ^ what, place.conversation, u64::from(place.turn));
        draw as usize % choices
    };
    let sentences: Vec<String> = sentences(answer).collect();
    if sentences.is_empty() {
        return PLAIN_QUESTION.to_owned();
    }
    let sentence = &sentences[draw(SENTENCE, sentences.len())];
    QUESTIONS[draw(QUESTION, QUESTIONS.len())].replace("{}", sentence)
}

/// Whole sentences of running text, in one line each. The last is left out if it was cut off.
fn sentences(text: &str) -> impl Iterator<Item = String> {
    text.lines()
        .filter(|line| !line.trim_start().starts_with(['#', '|', '`']))
        .flat_map(|line| {
            line.split_inclusive([' ', '\t'])
                .fold(vec![String::new()], gather)
        })
        .map(|sentence| {
            sentence
                .trim()
                .trim_matches(['*', '"', '-'])
                .trim()
                .to_owned()
        })
        .filter(|sentence| sentence.ends_with(['.', '!', '?']))
        .filter(|sentence| {
            let words = sentence.split_whitespace().count();
            (FEWEST_WORDS..=MOST_WORDS).contains(&words)
        })
}

/// Adds a word to the last sentence, or begins the next after one that has ended.
fn gather(mut sentences: Vec<String>, word: &str) -> Vec<String> {
    match sentences.last_mut() {
        Some(last) if !last.trim_end().ends_with(['.', '!', '?']) => last.push_str(word),
        _ => sentences.push(word.to_owned()),
    }
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(conversation: u64, turn: u32) -> TurnPosition {
        TurnPosition {
            seed: 7,
            conversation,
            turn,
        }
    }

    const ANSWER: &str = "# Heading that is no sentence at all.\n\nA page table maps 48 bits of \
        address to frames of 4.5 KiB. Short one. The hardware walks it when the buffer misses!\n\
        - Every level costs one memory access at worst.\nThis sentence was cut off in the mid";

    #[test]
    fn whole_sentences_are_found() {
        let found: Vec<String> = sentences(ANSWER).collect();
        assert_eq!(
            found,
            [
                "A page table maps 48 bits of address to frames of 4.5 KiB.",
                "The hardware walks it when the buffer misses!",
                "Every level costs one memory access at worst.",
            ]
        );
    }

    #[test]
    fn questions_quote_the_answer_and_vary() {
        let mut seen = std::collections::BTreeSet::new();
        for conversation in 0..50 {
            let asked = question(ANSWER, place(conversation, 1));
            assert!(
                sentences(ANSWER).any(|sentence| asked.contains(&sentence)),
                "{asked}"
            );
            assert_eq!(asked, question(ANSWER, place(conversation, 1)));
            seen.insert(asked);
        }
        assert!(seen.len() > 8, "{seen:?}");
    }

    #[test]
    fn an_answer_without_a_sentence_gets_a_plain_question() {
        for answer in ["", "no end", "Yes.", "```\ncode\n```"] {
            assert_eq!(question(answer, place(1, 1)), PLAIN_QUESTION);
        }
    }
}
