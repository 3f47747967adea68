//! Merging against a merger that searches the whole word for each merge.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

type Merges = HashMap<(TokenId, TokenId), Merge>;

/// Joins the leftmost pair of the lowest rank, until there is none.
fn naive(mut tokens: Vec<TokenId>, merges: &Merges) -> Vec<TokenId> {
    loop {
        let pairs = tokens.windows(2).enumerate();
        let found = pairs.filter_map(|(at, pair)| Some((merges.get(&(pair[0], pair[1]))?, at)));
        let Some((merge, at)) = found.min_by_key(|(merge, at)| (merge.rank, *at)) else {
            return tokens;
        };
        tokens.splice(at..at + 2, [merge.token]);
    }
}

fn merged(merger: &mut Merger, word: &[TokenId], merges: &Merges) -> Vec<TokenId> {
    let mut out = Vec::new();
    let parts = word.iter().map(|&token| (token, 1));
    let merge = |left: Part, right: Part| merges.get(&(left.token, right.token)).copied();
    merger.encode(parts, merge, &mut out);
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Ranks are in any order, so that a merge may make a pair of a lower rank than its own.
    #[test]
    fn short_and_long_words_merge_alike(
        pairs in prop::collection::vec((0_u32..12, 0_u32..12), 0..40),
        word in prop::collection::vec(0_u32..4, 0..120),
    ) {
        let merges: Merges = (0..).zip(pairs).map(|(rank, pair)| {
            (pair, Merge { rank, token: 4 + rank % 8 })
        }).collect();
        let mut merger = Merger::default();
        prop_assert_eq!(merged(&mut merger, &word, &merges), naive(word.clone(), &merges));
        // In memory that another word has used.
        let short = &word[..word.len().min(SHORT)];
        prop_assert_eq!(merged(&mut merger, short, &merges), naive(short.to_vec(), &merges));
        prop_assert_eq!(merged(&mut merger, &word, &merges), naive(word.clone(), &merges));
    }
}

#[test]
fn a_word_of_a_million_parts_is_merged() {
    let merge = |rank, token| Merge { rank, token };
    let merges: Merges = [
        ((0, 0), merge(1, 1)),
        ((1, 1), merge(0, 2)),
        ((2, 2), merge(2, 3)),
    ]
    .into();
    let tokens = merged(&mut Merger::default(), &vec![0; 1 << 20], &merges);
    assert!(tokens.len() <= 1 << 18 && !tokens.is_empty());
}
