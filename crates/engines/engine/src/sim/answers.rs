//! The text of the simulated model's answers.
//!
//! An answer is the stretch of an article that shares the most telling words with the end of
//! the prompt, where the question stands. A token's weight in a passage is its rarity: the
//! template's tokens are in no article and "the" is in all of them, so neither counts. A
//! passage counts as much as its article is about the question: what an article keeps coming
//! back to is its subject, while the "Why" of a question stands in a paragraph by chance.
//!
//! Nothing is generated: an answer is a place in the bank and a length, and its token at any
//! position is one array access. Looking up the place costs some microseconds, once for each
//! request.

#[cfg(test)]
mod tests;

use std::ops::Range;

use contract::random::{mix, unit};
use contract::{GenerateRequest, TokenId};

/// The question is looked for in this many tokens at the end of the prompt.
const QUESTION_TOKENS: usize = 64;
/// This many tokens before the question count too, with a lower weight.
const CONTEXT_TOKENS: usize = 256;
const CONTEXT_WEIGHT: f32 = 0.25;

/// A token in more than this share of the passages says nothing about a passage.
const COMMON_SHARE: usize = 6;

/// One of this many best passages begins the answer, so that asking again on the same
/// subject does not repeat the same text.
const CANDIDATES: usize = 3;
/// Only passages with this share of the best one's score are on the subject.
const ON_SUBJECT: f32 = 0.75;

/// An answer may end this much earlier or later than drawn to end with a paragraph.
const ROUNDING_TOKENS: usize = 96;

/// Salts that make the random draws of one answer independent of each other.
const PLACE: u64 = 1;
const LENGTH: u64 = 2;
const WORDS: u64 = 3;
const OPENING: u64 = 4;

/// How long answers are, in tokens: a bell curve with its ends cut off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AnswerLength {
    pub mean: f64,
    /// Standard deviation of the length.
    pub spread: f64,
    pub min: usize,
    pub max: usize,
}

impl AnswerLength {
    fn draw(&self, seed: u64, stream: u64) -> usize {
        let draws = (0..4).map(|draw| unit(mix(seed, stream, LENGTH << 8 | draw)));
        // Four uniform draws have mean 2 and variance 1/3, and look normal enough.
        let normal = (draws.sum::<f64>() - 2.0) * 3.0_f64.sqrt();
        ((self.mean + self.spread * normal).round() as usize).clamp(self.min, self.max)
    }
}

/// All passages that answers are made of.
#[derive(Debug, Default)]
pub struct AnswerBank {
    /// How an answer begins: one of these.
    openings: Vec<Vec<TokenId>>,
    /// All passages, one after the other.
    tokens: Vec<TokenId>,
    passages: Vec<Passage>,
    articles: usize,
    postings: Postings,
}

#[derive(Clone, Debug)]
struct Passage {
    /// Where it is in the bank's tokens.
    tokens: Range<usize>,
    /// Which passages its article has.
    article: Range<usize>,
}

/// The answer to one request: a position in the articles and a length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Tokens before the end-of-text token, opening included.
    length: usize,
    opening: usize,
    place: AnswerPosition,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum AnswerPosition {
    /// From `start` on, and around the article's end to its beginning.
    Article { tokens: Range<usize>, start: usize },
    /// Words of the prompt in random order: the bank is empty.
    Prompt { draws: u64 },
}

impl AnswerBank {
    /// A bank of articles, each a list of passages. A passage is a paragraph with the blank
    /// line after it. One of the `openings` stands before every answer and marks it as
    /// simulated. With many of them, two clients who ask the same about the same article get
    /// answers that differ from the start, as a model's do that samples; with one, answers
    /// would be prefixes that conversations share.
    pub fn new(openings: Vec<Vec<TokenId>>, articles: Vec<Vec<Vec<TokenId>>>) -> Self {
        let mut bank = Self {
            openings,
            ..Self::default()
        };
        bank.articles = articles.len();
        for article in articles {
            let passages = article.iter().filter(|passage| !passage.is_empty());
            let first = bank.passages.len();
            let article = first..first + passages.clone().count();
            for passage in passages {
                let start = bank.tokens.len();
                bank.tokens.extend_from_slice(passage);
                let tokens = start..bank.tokens.len();
                bank.passages.push(Passage {
                    tokens,
                    article: article.clone(),
                });
            }
        }
        bank.postings = Postings::new(&bank.tokens, &bank.passages);
        bank
    }

    /// Chooses the answer to a request. `stream` identifies the request, so that the same request
    /// always gets the same answer.
    pub fn answer(
        &self,
        request: &GenerateRequest,
        stream: u64,
        lengths: AnswerLength,
        seed: u64,
    ) -> Answer {
        let length = lengths.draw(seed, stream);
        let opening = mix(seed, stream, OPENING) as usize % self.openings.len().max(1);
        if self.passages.is_empty() {
            return Answer {
                length,
                opening,
                place: AnswerPosition::Prompt {
                    draws: mix(seed, stream, WORDS),
                },
            };
        }
        let draw = mix(seed, stream, PLACE);
        let first = self.choose_passage(&request.prompt, draw);
        let passage = &self.passages[first];
        let articles_last = &self.passages[passage.article.end - 1];
        let article = self.passages[passage.article.start].tokens.start..articles_last.tokens.end;
        let length = self
            .round_to_passage(first, opening, length)
            .clamp(lengths.min, lengths.max);
        Answer {
            length,
            opening,
            place: AnswerPosition::Article {
                tokens: article,
                start: passage.tokens.start,
            },
        }
    }

    /// The token at `position` of an answer, and whether it ends it. Beyond the answer's
    /// length the text simply goes on for requests that may not stop yet.
    pub fn token(
        &self,
        answer: &Answer,
        request: &GenerateRequest,
        position: usize,
    ) -> (TokenId, bool) {
        let limits = &request.limits;
        if position >= answer.length
            && limits.may_stop(position)
            && let Some(&end_of_text) = limits.eos_tokens.first()
        {
            return (end_of_text, true);
        }
        let opening = self.opening(answer.opening);
        let Some(position) = position.checked_sub(opening.len()) else {
            return (opening[position], false);
        };
        let token = match &answer.place {
            AnswerPosition::Article { tokens, start } => {
                self.tokens[tokens.start + (start - tokens.start + position) % tokens.len()]
            }
            AnswerPosition::Prompt { draws } => word_of_prompt(request, *draws, position),
        };
        (token, false)
    }

    /// Nothing if there is none.
    fn opening(&self, index: usize) -> &[TokenId] {
        self.openings.get(index).map_or(&[], Vec::as_slice)
    }

    /// One of the passages that share the most telling tokens with the prompt's end; any
    /// passage if none shares a token.
    fn choose_passage(&self, prompt: &[TokenId], draw: u64) -> usize {
        let mut scores = vec![0.0_f32; self.passages.len()];
        let question = prompt.len().saturating_sub(QUESTION_TOKENS);
        let context = prompt.len().saturating_sub(CONTEXT_TOKENS);
        self.postings.score(&prompt[question..], 1.0, &mut scores);
        self.postings
            .score(&prompt[context..question], CONTEXT_WEIGHT, &mut scores);
        let about = self.article_scores(&prompt[context..]);
        for (score, passage) in scores.iter_mut().zip(&self.passages) {
            *score *= about[passage.article.start];
        }
        // Best first; among equals the earlier passage, because only a higher score moves up.
        let mut best: [Option<usize>; CANDIDATES] = [None; CANDIDATES];
        for (passage, &score) in scores.iter().enumerate().filter(|&(_, &score)| score > 0.0) {
            let mut candidate = passage;
            let mut score = score;
            for place in &mut best {
                match place {
                    Some(holder) if scores[*holder] >= score => {}
                    Some(holder) => {
                        std::mem::swap(holder, &mut candidate);
                        score = scores[candidate];
                    }
                    None => {
                        *place = Some(candidate);
                        break;
                    }
                }
            }
        }
        let least = best[0].map_or(0.0, |passage| scores[passage] * ON_SUBJECT);
        let on_subject = |&&passage: &&usize| scores[passage] >= least;
        let found = best.iter().flatten().filter(on_subject).count();
        match found {
            0 => (draw % self.passages.len() as u64) as usize,
            _ => best[(draw % found as u64) as usize].expect("counted as found"),
        }
    }

    /// How much each article is about the tokens, at the index of its first passage.
    fn article_scores(&self, tokens: &[TokenId]) -> Vec<f32> {
        let mut scores = vec![0.0; self.passages.len()];
        for token in distinct(tokens) {
            // Holders are in order, so those of an article stand together.
            let article = |passage: &u32| self.passages[*passage as usize].article.start;
            let holders = self.postings.holders(token);
            let articles = holders.chunk_by(|left, right| article(left) == article(right));
            let rarity = (self.articles as f32 / articles.clone().count().max(1) as f32).ln() + 0.1;
            for passages in articles {
                scores[article(&passages[0])] += (passages.len() as f32).ln_1p() * rarity;
            }
        }
        scores
    }

    /// The length nearest to `length` at which a passage ends, if one is near enough.
    fn round_to_passage(&self, first: usize, opening: usize, length: usize) -> usize {
        let article = &self.passages[first].article;
        let mut end = self.opening(opening).len();
        let mut passage = first;
        loop {
            let next = end + self.passages[passage].tokens.len();
            if next >= length {
                let nearest = if next - length < length.abs_diff(end) {
                    next
                } else {
                    end
                };
                let near = nearest.abs_diff(length) <= ROUNDING_TOKENS;
                return if near { nearest } else { length };
            }
            end = next;
            passage = if passage + 1 == article.end {
                article.start
            } else {
                passage + 1
            };
        }
    }
}

/// Any token of the prompt, but rather not one that would end the answer.
fn word_of_prompt(request: &GenerateRequest, draws: u64, position: usize) -> TokenId {
    let prompt = &request.prompt;
    let first = (mix(draws, 0, position as u64) % prompt.len() as u64) as usize;
    let mut words = prompt[first..].iter().chain(&prompt[..first]);
    let word = words.find(|word| !request.limits.eos_tokens.contains(word));
    *word.unwrap_or(&prompt[first])
}

fn distinct(tokens: &[TokenId]) -> Vec<TokenId> {
    let mut tokens = tokens.to_vec();
    tokens.sort_unstable();
    tokens.dedup();
    tokens
}

/// For each token, the passages it is in, if they are few.
///
/// Lists of all tokens lie one behind the other; `bounds[token]` is where a token's list
/// begins. A table by token takes under a megabyte for any vocabulary and is shared by all
/// workers.
#[derive(Debug, Default)]
struct Postings {
    bounds: Vec<u32>,
    passages: Vec<u32>,
    /// The weight of a token that is in this many passages.
    weights: Vec<f32>,
}

impl Postings {
    fn new(tokens: &[TokenId], passages: &[Passage]) -> Self {
        let most = passages.len().div_ceil(COMMON_SHARE);
        let mut pairs: Vec<(TokenId, u32)> = Vec::with_capacity(tokens.len());
        for (index, passage) in passages.iter().enumerate() {
            pairs.extend(
                tokens[passage.tokens.clone()]
                    .iter()
                    .map(|&t| (t, index as u32)),
            );
        }
        pairs.sort_unstable();
        pairs.dedup();
        let highest = pairs.last().map_or(0, |&(token, _)| token as usize);
        let mut postings = Self {
            bounds: Vec::with_capacity(highest + 2),
            passages: Vec::new(),
            weights: (0..=most)
                .map(|holders| (passages.len() as f32 / holders.max(1) as f32).ln() + 0.1)
                .collect(),
        };
        for list in pairs.chunk_by(|left, right| left.0 == right.0) {
            if list.len() <= most {
                postings
                    .bounds
                    .resize(list[0].0 as usize + 1, postings.passages.len() as u32);
                postings
                    .passages
                    .extend(list.iter().map(|&(_, passage)| passage));
            }
        }
        postings.bounds.push(postings.passages.len() as u32);
        postings
    }

    fn holders(&self, token: TokenId) -> &[u32] {
        match self.bounds.get(token as usize..) {
            Some([begin, end, ..]) => &self.passages[*begin as usize..*end as usize],
            Some(_) | None => &[],
        }
    }

    /// Adds the weight of each token to the passages it is in. A token counts once, however
    /// often it occurs.
    fn score(&self, tokens: &[TokenId], factor: f32, scores: &mut [f32]) {
        for token in distinct(tokens) {
            let holders = self.holders(token);
            for &passage in holders {
                scores[passage as usize] += factor * self.weights[holders.len()];
            }
        }
    }
}
