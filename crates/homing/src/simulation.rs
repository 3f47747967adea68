//! The text that simulated workers answer with.
//!
//! The engine knows tokens only, so the text is prepared here: our own articles are cut into
//! paragraphs, tokenised once, and shared by all workers.

use std::sync::Arc;

use engine::sim::AnswerBank;
use preprocess::{Preprocessor, corpus};

/// Every simulated answer begins with a mark, so that nobody takes it for a model's, and with a
/// number, so that two answers to one question differ from the start. It ends with a line break
/// because tokens never span one that a letter follows: the client's next turn sends the answer
/// back as text, and must find the same tokens in it.
const OPENINGS: u32 = 1000;

fn opening(number: u32) -> String {
    format!("[simulated] #{number:03}\n\n")
}

/// The articles in the tokens of the served model.
pub(crate) fn answers(preprocessor: &Preprocessor) -> anyhow::Result<Arc<AnswerBank>> {
    let mut articles = Vec::new();
    for article in corpus::articles() {
        let passages = article.paragraphs.iter();
        let passages = passages.map(|text| preprocessor.encode_plain(&format!("{text}\n\n")));
        articles.push(passages.collect::<Result<_, _>>()?);
    }
    let openings = (0..OPENINGS).map(|number| preprocessor.encode_plain(&opening(number)));
    let openings = openings.collect::<Result<_, _>>()?;
    Ok(Arc::new(AnswerBank::new(openings, articles)))
}
