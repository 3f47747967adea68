//! Logits are those of transformers, and do not depend on company.
