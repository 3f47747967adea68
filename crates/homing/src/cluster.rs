//! The same system on several machines: `homing frontend` and `homing worker`.

pub(crate) mod frontend;
mod keys;
mod membership;
pub(crate) mod worker;

/// A number that nobody else has drawn. Of 53 bits, so that it survives programs that take
/// every number for floating point.
fn draw_id() -> u64 {
    let (high, low) = uuid::Uuid::new_v4().as_u64_pair();
    (high ^ low) >> 11
}
