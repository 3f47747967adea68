//! The forty articles that conversations start from.
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

macro_rules! texts {
    ($($name:literal),+ $(,)?) => {
        [$(include_str!(concat!("../../../../corpus/", $name, ".md"))),+]
    };
}

const TEXTS: [&str; 40] = texts![
    "01-virtual-memory",
    "02-consensus",
    "03-storage-engines",
    "04-congestion-control",
    "05-gpu-execution",
    "06-garbage-collection",
    "07-clocks-and-order",
    "08-error-correcting-codes",
    "09-electric-grid",
    "10-satellite-navigation",
    "11-tcp-handshake-to-tls",
    "12-hash-tables",
    "13-public-key-cryptography",
    "14-compilers-and-register-allocation",
    "15-file-systems-and-crash-consistency",
    "16-query-optimizers",
    "17-caches-and-coherence",
    "18-branch-prediction-and-speculation",
    "19-attention-and-kv-caches",
    "20-quantization",
    "21-queueing-theory",
    "22-data-compression",
    "23-video-coding",
    "24-digital-audio",
    "25-image-sensors",
    "26-optical-fibre",
    "27-mobile-radio",
    "28-semiconductor-manufacturing",
    "29-lithium-ion-batteries",
    "30-wind-turbines",
    "31-jet-engines",
    "32-bridges-and-resonance",
    "33-water-treatment",
    "34-refrigeration-and-heat-pumps",
    "35-weather-forecasting",
    "36-earthquakes-and-seismology",
    "37-dna-sequencing",
    "38-vaccines-and-immunity",
    "39-magnetic-resonance-imaging",
    "40-orbital-mechanics",
];

/// All articles, in the order of their file names. The first ten are the specification's pool.
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
