//! Which engines there are.

use std::fmt;

use contract::Abilities;

use crate::dialect::Dialect;
use crate::{openai, sglang, trtllm, vllm};

/// Which program the engine is. What follows from it is in the engine's own file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EngineKind {
    Vllm,
    Sglang,
    Trtllm,
    /// Any server with `/v1/completions` that takes token ids.
    Openai,
}

impl EngineKind {
    /// The kinds that an operator can name: the chain of [`next`](Self::next), which the compiler
    /// keeps whole.
    pub const ALL: [Self; 4] = {
        let mut all = [Self::FIRST; 4];
        let mut index = 0;
        let mut kind = Some(Self::FIRST);
        while let Some(one) = kind {
            all[index] = one;
            index += 1;
            kind = one.next();
        }
        assert!(index == all.len(), "a kind is missing");
        all
    };

    const FIRST: Self = Self::Vllm;

    const fn next(self) -> Option<Self> {
        match self {
            Self::Vllm => Some(Self::Sglang),
            Self::Sglang => Some(Self::Trtllm),
            Self::Trtllm => Some(Self::Openai),
            Self::Openai => None,
        }
    }

    /// What its servers can do with a request in tokens; they can do more with one that is
    /// forwarded.
    pub fn abilities(self) -> Abilities {
        Abilities {
            logprobs: self.dialect().logprobs,
            ..Abilities::default()
        }
    }

    pub const fn as_str(self) -> &'static str {
        self.dialect().name
    }
}

impl fmt::Display for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl EngineKind {
    /// The one place that distinguishes engines.
    pub(crate) const fn dialect(self) -> &'static Dialect {
        match self {
            Self::Vllm => &vllm::DIALECT,
            Self::Sglang => &sglang::DIALECT,
            Self::Trtllm => &trtllm::DIALECT,
            Self::Openai => &openai::DIALECT,
        }
    }
}
