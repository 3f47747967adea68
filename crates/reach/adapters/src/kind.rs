//! Which engines there are.

use std::fmt;

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
    /// The kinds that an operator can name. The compiler does not notice if one is absent.
    pub const ALL: [Self; 4] = [Self::Vllm, Self::Sglang, Self::Trtllm, Self::Openai];

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
