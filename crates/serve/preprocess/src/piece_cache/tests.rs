//! The cache is exact and bounded.

use std::convert::Infallible;

use proptest::prelude::*;

use super::*;

/// Tokens that tell which text they belong to.
fn encode(text: &str) -> Result<Arc<[TokenId]>, Infallible> {
    Ok(text.bytes().map(u32::from).collect())
}

fn get(cache: &PieceCache, text: &str) -> Arc<[TokenId]> {
    cache.get_or_encode(text, encode).unwrap()
}

#[test]
fn what_is_used_stays_and_what_is_not_goes() {
    let cache = PieceCache::new(400_000);
    let mut encoded = 0;
    for round in 0..5_000 {
        get(&cache, &format!("passing {round}"));
        let favourite = cache.get_or_encode("favourite", |text| {
            encoded += 1;
            encode(text)
        });
        assert_eq!(favourite, encode("favourite"));
    }
    assert_eq!(encoded, 1);
    let stats = cache.stats();
    assert!(stats.entries < 5_000, "{stats:?}");
    assert_eq!((stats.hits, stats.misses), (4_999, 5_001));
}

#[test]
fn what_does_not_fit_is_not_kept() {
    let cache = PieceCache::new(SHARDS * 2 * 1_000);
    let long = "x".repeat(2_000);
    assert_eq!(get(&cache, &long), encode(&long).unwrap());
    assert_eq!(cache.stats().entries, 0);
    let none = PieceCache::new(0);
    assert_eq!(get(&none, "a"), encode("a").unwrap());
    assert_eq!(none.stats().bytes, 0);
}

#[test]
fn a_failure_is_not_remembered() {
    let cache = PieceCache::new(1 << 20);
    assert_eq!(cache.get_or_encode("a", |_| Err("no")), Err("no"));
    assert_eq!(cache.stats().entries, 0);
    assert_eq!(get(&cache, "a"), encode("a").unwrap());
}

proptest! {
    #[test]
    fn every_answer_is_right_and_the_bound_holds(
        texts in prop::collection::vec("[a-c]{0,4}", 0..300),
        limit in 0_usize..40_000,
    ) {
        let cache = PieceCache::new(limit);
        for text in &texts {
            prop_assert_eq!(get(&cache, text), encode(text).unwrap());
            prop_assert!(cache.stats().bytes <= limit);
        }
        let stats = cache.stats();
        prop_assert_eq!(stats.hits + stats.misses, texts.len() as u64);
        // The books agree with what is there.
        for shard in &cache.shards {
            let shard = shard.lock();
            for generation in [&shard.young, &shard.old] {
                let bytes: usize = generation.entries.iter().map(Entry::bytes).sum();
                prop_assert_eq!(bytes, generation.bytes);
            }
        }
    }
}
