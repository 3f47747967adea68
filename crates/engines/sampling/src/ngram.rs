//! Prompt lookup: what followed the last tokens when they came before.

use contract::TokenId;

/// The longest and the shortest end of a text that is looked for.
const LONGEST: usize = 4;
const SHORTEST: usize = 2;

/// Up to `most` tokens that may follow `tokens`, into `drafts`.
pub fn draft(tokens: &[TokenId], most: usize, drafts: &mut Vec<TokenId>) {
    drafts.clear();
    for length in (SHORTEST..=LONGEST).rev() {
        if tokens.len() <= length || most == 0 {
            continue;
        }
        let (before, end) = tokens.split_at(tokens.len() - length);
        // The last time is the likeliest to be like this one.
        let found = (0..before.len())
            .rev()
            .find(|at| tokens[*at..].starts_with(end));
        if let Some(at) = found {
            let follows = &tokens[at + length..];
            drafts.extend_from_slice(&follows[..most.min(follows.len())]);
            return;
        }
    }
}
