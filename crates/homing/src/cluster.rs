//! The same system on several machines: `homing frontend`, `homing epp` and `homing worker`.

mod console;
mod doors;
pub(crate) mod epp;
pub(crate) mod frontend;
mod keys;
mod membership;
mod models;
mod peers;
pub(crate) mod worker;

pub(crate) use self::models::sample_prompt;
