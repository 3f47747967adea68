//! The ten articles that conversations start from.
//!
//! Written for this project and compiled in, so that a demo needs no download and a
//! simulated answer has something to say. They are ordinary Markdown in `corpus/`.

#[cfg(test)]
mod tests;

use std::sync::LazyLock;

/// One article.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Article {
    /// Without the mark of a heading.
    pub title: &'static str,
    /// The whole text, title and headings included.
    pub text: &'static str,
    /// The running text, without headings.
    pub paragraphs: Vec<&'static str>,
}

const TEXTS: [&str; 10] = [
    include_str!("../../../corpus/01-virtual-memory.md"),
    include_str!("../../../corpus/02-consensus.md"),
    include_str!("../../../corpus/03-storage-engines.md"),
    include_str!("../../../corpus/04-congestion-control.md"),
    include_str!("../../../corpus/05-gpu-execution.md"),
    include_str!("../../../corpus/06-garbage-collection.md"),
    include_str!("../../../corpus/07-clocks-and-order.md"),
    include_str!("../../../corpus/08-error-correcting-codes.md"),
    include_str!("../../../corpus/09-electric-grid.md"),
    include_str!("../../../corpus/10-satellite-navigation.md"),
];

/// All articles, in the order of their file names.
pub fn articles() -> &'static [Article] {
    static ARTICLES: LazyLock<Vec<Article>> =
        LazyLock::new(|| TEXTS.into_iter().map(Article::parse).collect());
    &ARTICLES
}

impl Article {
    fn parse(text: &'static str) -> Self {
        let title = text.lines().find_map(|line| line.strip_prefix("# "));
        let blocks = text.split("\n\n").map(str::trim);
        Self {
            title: title.map_or("", str::trim),
            text,
            paragraphs: blocks
                .filter(|block| !block.is_empty() && !block.starts_with('#'))
                .collect(),
        }
    }
}
