//! The load that a console starts and stops, resolved.

use loadgen::{Settings, StarterMode};
use preprocess::corpus;

use crate::args::{LoadArgs, StarterChoice, TextArgs};

/// Conversations against an API.
#[derive(Clone, Debug)]
pub(crate) struct LoadPlan {
    pub(crate) settings: Settings,
    pub(crate) texts: TextPlan,
    /// Writes the users' questions.
    pub(crate) user_model: Option<UserModelPlan>,
    pub(crate) seed: u64,
    /// Sends each text once before load begins.
    pub(crate) warm: bool,
    /// Begins at once.
    pub(crate) autostart: bool,
}

/// What conversations begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TextPlan {
    pub(crate) source: TextSource,
    /// Texts are cut at so many characters.
    pub(crate) limit: Option<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TextSource {
    /// So many of the built-in articles.
    Articles(usize),
    /// A folder or a bucket.
    Corpus(String),
}

/// A server that writes questions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UserModelPlan {
    pub(crate) url: String,
    pub(crate) name: Option<String>,
}

/// What load is like unless the options say otherwise.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UsualLoad {
    pub(crate) concurrency: u32,
    pub(crate) max_tokens: u32,
    pub(crate) text_limit: Option<usize>,
}

/// For engines with GPUs, and those that simulate them.
pub(super) const GPU_LOAD: UsualLoad = UsualLoad {
    concurrency: 60,
    max_tokens: 1024,
    text_limit: None,
};

/// A model on a CPU is slower than a simulated one, and reads some hundred tokens per second.
pub(super) const CPU_LOAD: UsualLoad = UsualLoad {
    concurrency: 4,
    max_tokens: 96,
    text_limit: Some(2000),
};

impl StarterChoice {
    /// How many of the built-in articles.
    pub(super) fn articles(self) -> usize {
        let all = corpus::articles().len();
        match self {
            Self::Ten | Self::Unique => all.min(10),
            Self::All => all,
        }
    }
}

impl TextArgs {
    /// Without a place, so many of the built-in articles.
    pub(crate) fn resolve(&self, articles: usize) -> TextPlan {
        TextPlan {
            source: match &self.corpus {
                Some(place) => TextSource::Corpus(place.clone()),
                None => TextSource::Articles(articles),
            },
            limit: self.text_limit.map(|limit| limit as usize),
        }
    }

    pub(crate) fn user_model(&self) -> Option<UserModelPlan> {
        Some(UserModelPlan {
            url: self.user_model.clone()?,
            name: self.user_model_name.clone(),
        })
    }
}

impl LoadArgs {
    /// `None` if there is to be no load generator.
    pub(super) fn resolve(self, usual: UsualLoad, seed: u64) -> Option<LoadPlan> {
        if self.no_load {
            return None;
        }
        let mut texts = self.texts.resolve(self.starters.articles());
        texts.limit = texts.limit.or(usual.text_limit);
        Some(LoadPlan {
            settings: Settings {
                concurrency: self.concurrency.unwrap_or(usual.concurrency),
                max_tokens: self.max_tokens.unwrap_or(usual.max_tokens),
                starters: match self.starters {
                    StarterChoice::Unique => StarterMode::Unique,
                    StarterChoice::Ten | StarterChoice::All => StarterMode::Shared,
                },
                ..Settings::default()
            },
            texts,
            user_model: self.texts.user_model(),
            seed,
            warm: self.warm,
            autostart: self.autostart,
        })
    }
}
