//! Vocabulary and template out of one file that holds all of a model.

use std::path::Path;
use std::time::SystemTime;

use super::{TemplateFile, Vocabulary};
use crate::error::{LoadError, TemplateFault, TokenizerFault};
use crate::template::ChatTemplate;
use crate::tokenizer::hugging_face::HuggingFace;
use crate::tokenizer::{NamedToken, Tokenizer};

pub(super) fn load(
    path: &Path,
    from: &Vocabulary<'_>,
    template: Option<&TemplateFile>,
    clock: fn() -> SystemTime,
) -> Result<(Tokenizer, ChatTemplate), LoadError> {
    let wrong = |reason| LoadError::Tokenizer {
        path: path.to_owned(),
        reason,
    };
    let vocabulary = HuggingFace::parse(from.tokenizer_json.as_bytes()).map_err(wrong)?;
    let named = |text: &str| {
        let id = vocabulary.id_of(text);
        id.ok_or_else(|| wrong(TokenizerFault::NoToken(text.to_owned())))
    };
    let mut ends = from
        .eos
        .iter()
        .map(|text| named(text))
        .collect::<Result<Vec<_>, _>>()?;
    ends.sort_unstable();
    ends.dedup();
    let bos = match from.bos {
        Some(text) => Some(NamedToken {
            id: named(text)?,
            text: text.to_owned(),
        }),
        None => None,
    };
    let eos_text = from.eos.first().cloned().unwrap_or_default();
    let bos_text = from.bos.unwrap_or_default();
    let template = match template {
        Some(given) => given.compile(bos_text, &eos_text, clock)?,
        None => from
            .chat_template
            .ok_or(TemplateFault::Missing)
            .and_then(|source| ChatTemplate::new(source, bos_text, &eos_text, clock))
            .map_err(|reason| LoadError::Template {
                path: path.to_owned(),
                reason,
            })?,
    };
    let bos = bos.filter(|_| from.add_bos);
    let tokenizer = Tokenizer::hugging_face(vocabulary, bos, eos_text, ends.into());
    Ok((tokenizer, template))
}
