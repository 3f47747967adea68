//! The tokens of a model as grammars see them, and the grammars that were compiled for them.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, OnceLock};

use contract::{Grammar, TokenId};
use llguidance::ParserFactory;
use llguidance::api::ParserLimits;
use llguidance::earley::SlicedBiasComputer;
use llguidance::toktrie::{ApproximateTokEnv, InferenceCapabilities, TokEnv, TokRxInfo, TokTrie};

use parking_lot::Mutex;

use crate::matcher::Matcher;
use crate::{GrammarError, compiled};

/// Grammars that are remembered: an agent sends the same tools with every turn, and what was
/// compiled before a request joined a batch must be there when it does.
const REMEMBERED: usize = 256;

/// States of one answer's lexer, of a kilobyte or two each. Honest schemas take a few hundred;
/// `(a|b)*a(a|b){20}` would take a million.
const MOST_LEXER_STATES: usize = 20_000;

/// A token as a grammar sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    /// Stands for these bytes.
    Text(Vec<u8>),
    /// No text; grammars may name it.
    Special(String),
    /// Nothing that a model may say.
    Unused,
}

/// Lists a model's tokens by id, and names those that end an answer.
type Source = dyn Fn() -> (Vec<Token>, Vec<TokenId>) + Send + Sync;

/// A model's tokens, shared by all its workers of a process. Built when the first request needs
/// it: that takes a tenth of a second and some megabytes.
pub struct Vocabulary {
    source: Box<Source>,
    factory: OnceLock<Result<ParserFactory, GrammarError>>,
    remembered: Mutex<VecDeque<(Grammar, Arc<Matcher>)>>,
}

impl Vocabulary {
    pub fn new(source: impl Fn() -> (Vec<Token>, Vec<TokenId>) + Send + Sync + 'static) -> Self {
        Self {
            source: Box::new(source),
            factory: OnceLock::new(),
            remembered: Mutex::default(),
        }
    }

    /// Compiles a grammar, or finds it compiled. May take long: not for a thread on which others
    /// wait.
    pub fn compile(&self, grammar: &Grammar) -> Result<(), GrammarError> {
        self.fresh(grammar).map(drop)
    }

    /// A matcher at the start of an answer.
    pub fn matcher(&self, grammar: &Grammar) -> Result<Matcher, GrammarError> {
        self.fresh(grammar).map(|matcher| matcher.start())
    }

    /// The token that stands for exactly these bytes.
    pub fn token(&self, bytes: &[u8]) -> Option<TokenId> {
        let factory = self.factory().as_ref().ok()?;
        factory.tok_env().tok_trie().token_id(bytes)
    }

    fn factory(&self) -> &Result<ParserFactory, GrammarError> {
        self.factory.get_or_init(|| {
            let (tokens, ends) = (self.source)();
            let slices = SlicedBiasComputer::general_slices();
            factory(&environment(&tokens, &ends), &slices)
        })
    }

    fn fresh(&self, grammar: &Grammar) -> Result<Arc<Matcher>, GrammarError> {
        if let Some(known) = self.recall(grammar) {
            return Ok(known);
        }
        let factory = self.factory().as_ref().map_err(Clone::clone)?;
        let matcher = Arc::new(compiled(factory, grammar)?);
        let mut remembered = self.remembered.lock();
        if remembered.len() == REMEMBERED {
            remembered.pop_back();
        }
        remembered.push_front((grammar.clone(), Arc::clone(&matcher)));
        Ok(matcher)
    }

    /// Moves it to the front.
    fn recall(&self, grammar: &Grammar) -> Option<Arc<Matcher>> {
        let mut remembered = self.remembered.lock();
        let place = remembered.iter().position(|(known, _)| known == grammar)?;
        let entry = remembered.remove(place)?;
        let matcher = Arc::clone(&entry.1);
        remembered.push_front(entry);
        Some(matcher)
    }
}

impl fmt::Debug for Vocabulary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vocabulary")
            .field("built", &self.factory.get().is_some())
            .finish_non_exhaustive()
    }
}

fn environment(tokens: &[Token], ends: &[TokenId]) -> TokEnv {
    let marked = |name: &[u8]| [&[TokTrie::SPECIAL_TOKEN_MARKER], name].concat();
    let words: Vec<Vec<u8>> = tokens
        .iter()
        .enumerate()
        .map(|(id, token)| match token {
            Token::Text(bytes) => bytes.clone(),
            Token::Special(name) => marked(name.as_bytes()),
            Token::Unused => marked(format!("<[{id}]>").as_bytes()),
        })
        .collect();
    let size = u32::try_from(words.len()).unwrap_or(u32::MAX);
    let end = ends.first().copied().unwrap_or(0);
    let trie = TokTrie::from(&TokRxInfo::new(size, end), &words);
    let trie = match ends {
        [] => trie,
        ends => trie.with_eos_tokens(ends),
    };
    Arc::new(ApproximateTokEnv::new(trie))
}

/// `slices` are regular expressions of tokens that are often allowed together.
pub(crate) fn factory(tokens: &TokEnv, slices: &[String]) -> Result<ParserFactory, GrammarError> {
    let mut factory = ParserFactory::new(tokens, InferenceCapabilities::default(), slices)
        .map_err(|error| GrammarError::new(&error))?;
    factory.quiet();
    *factory.limits_mut() = ParserLimits {
        verbose_errors: false,
        max_lexer_states: MOST_LEXER_STATES,
        ..ParserLimits::default()
    };
    Ok(factory)
}
