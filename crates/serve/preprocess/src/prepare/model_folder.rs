//! Reads a model's folder in Hugging Face's layout.
//!
//! | file | what is read |
//! |---|---|
//! | `tokenizer.json` | the vocabulary; required |
//! | `tokenizer_config.json` | names of the first and last token, chat template |
//! | `chat_template.jinja` | the chat template; wins over the other |
//! | `generation_config.json`, `config.json` | ids that end an answer, context length, recommended sampling |

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use contract::TokenId;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::TemplateFile;
use super::sampling::Recommended;
use crate::error::LoadError;
use crate::template::ChatTemplate;
use crate::tokenizer::hugging_face::HuggingFace;
use crate::tokenizer::{NamedToken, Tokenizer};

/// What a folder holds.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) tokenizer: Tokenizer,
    pub(super) template: ChatTemplate,
    pub(super) max_context_tokens: Option<u32>,
    pub(super) recommended: Recommended,
}

pub(super) fn load(
    folder: &Path,
    template: Option<&TemplateFile>,
    clock: fn() -> SystemTime,
) -> Result<Model, LoadError> {
    let path = folder.join("tokenizer.json");
    let json = std::fs::read(&path).map_err(|source| LoadError::Read {
        path: path.clone(),
        source,
    })?;
    let vocabulary = HuggingFace::parse(&json).map_err(|reason| LoadError::Tokenizer {
        path: path.clone(),
        reason,
    })?;
    let names: TokenizerConfig = read_json(folder.join("tokenizer_config.json"))?;
    let generation: GenerationConfig = read_json(folder.join("generation_config.json"))?;
    let config: ModelConfig = read_json(folder.join("config.json"))?;

    let bos = named(&vocabulary, names.bos_token.as_ref()).or_else(|| {
        let id = generation.bos_token_id.or(config.bos_token_id)?;
        Some(NamedToken {
            id,
            text: vocabulary.text_of(id)?,
        })
    });
    let eos = named(&vocabulary, names.eos_token.as_ref());
    let mut ends: Vec<TokenId> = eos.iter().map(|token| token.id).collect();
    // Chat models end a turn with another token than a text, and say so here only.
    if let Some(ids) = generation.eos_token_id.or(config.eos_token_id) {
        ends.extend(ids.into_vec());
    }
    ends.sort_unstable();
    ends.dedup();
    let eos_text = eos.map_or_else(String::new, |token| token.text);

    let bos_text = bos.as_ref().map_or("", |token| &token.text).to_owned();
    let adds_bos = names
        .add_bos_token
        .unwrap_or_else(|| post_processor_adds(&json, &bos_text));
    let bos = bos.filter(|_| adds_bos);
    let template = match template {
        Some(given) => given.compile(&bos_text, &eos_text, clock)?,
        None => {
            let (source, path) = template_source(folder, names.chat_template)?;
            TemplateFile { path, source }.compile(&bos_text, &eos_text, clock)?
        }
    };
    let tokenizer = Tokenizer::hugging_face(vocabulary, bos, eos_text, ends.into());
    Ok(Model {
        tokenizer,
        template,
        max_context_tokens: config.max_position_embeddings,
        recommended: generation.recommended.sound(),
    })
}

/// Whether `tokenizer.json` puts this token before a text, which is what engines go by where nothing
/// else is said: a token that is only named is for templates.
fn post_processor_adds(tokenizer_json: &[u8], token: &str) -> bool {
    let file: TokenizerFile = serde_json::from_slice(tokenizer_json).unwrap_or_default();
    let processor = file.post_processor.unwrap_or_default();
    let parts = processor.processors.unwrap_or_default();
    std::iter::once(&processor.template)
        .chain(parts.iter().map(|part| &part.template))
        .filter_map(|template| template.single.first()?.special.as_ref())
        .any(|special| special.id == token)
}

#[derive(Debug, Default, Deserialize)]
struct TokenizerFile {
    post_processor: Option<PostProcessor>,
}

/// A template, or a sequence of processors.
#[derive(Debug, Default, Deserialize)]
struct PostProcessor {
    #[serde(flatten)]
    template: PostTemplate,
    processors: Option<Vec<PostProcessorPart>>,
}

#[derive(Debug, Deserialize)]
struct PostProcessorPart {
    #[serde(flatten)]
    template: PostTemplate,
}

#[derive(Debug, Default, Deserialize)]
struct PostTemplate {
    /// What a single text is surrounded with, in order.
    #[serde(default)]
    single: Vec<PostPiece>,
}

#[derive(Debug, Deserialize)]
struct PostPiece {
    #[serde(rename = "SpecialToken")]
    special: Option<SpecialPiece>,
}

#[derive(Debug, Deserialize)]
struct SpecialPiece {
    id: String,
}

#[derive(Debug, Default, Deserialize)]
struct TokenizerConfig {
    bos_token: Option<TokenName>,
    eos_token: Option<TokenName>,
    add_bos_token: Option<bool>,
    chat_template: Option<Templates>,
}

/// A token's text, bare or with its properties.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum TokenName {
    Bare(String),
    Described { content: String },
}

/// One template, or several with names.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Templates {
    One(String),
    Named(Vec<NamedTemplate>),
}

#[derive(Debug, Deserialize)]
struct NamedTemplate {
    name: String,
    template: String,
}

/// `config.json`.
#[derive(Debug, Default, Deserialize)]
struct ModelConfig {
    bos_token_id: Option<TokenId>,
    eos_token_id: Option<Ids>,
    max_position_embeddings: Option<u32>,
}

/// `generation_config.json`.
#[derive(Debug, Default, Deserialize)]
struct GenerationConfig {
    bos_token_id: Option<TokenId>,
    eos_token_id: Option<Ids>,
    #[serde(flatten)]
    recommended: Recommended,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Ids {
    One(TokenId),
    Many(Vec<TokenId>),
}

impl Ids {
    fn into_vec(self) -> Vec<TokenId> {
        match self {
            Self::One(id) => vec![id],
            Self::Many(ids) => ids,
        }
    }
}

impl Templates {
    /// The one for ordinary conversations.
    fn into_default(self) -> Option<String> {
        match self {
            Self::One(template) => Some(template),
            Self::Named(templates) => {
                let mut named = templates.into_iter();
                named
                    .find(|named| named.name == "default")
                    .map(|named| named.template)
            }
        }
    }
}

fn named(vocabulary: &HuggingFace, name: Option<&TokenName>) -> Option<NamedToken> {
    let (TokenName::Bare(text) | TokenName::Described { content: text }) = name?;
    Some(NamedToken {
        id: vocabulary.id_of(text)?,
        text: text.clone(),
    })
}

/// The template and the file it came from.
fn template_source(
    folder: &Path,
    in_config: Option<Templates>,
) -> Result<(String, PathBuf), LoadError> {
    let path = folder.join("chat_template.jinja");
    if let Some(bytes) = read_if_there(&path)? {
        return match String::from_utf8(bytes) {
            Ok(source) => Ok((source, path)),
            Err(error) => Err(LoadError::Template {
                path,
                reason: error.into(),
            }),
        };
    }
    match in_config.and_then(Templates::into_default) {
        Some(source) => Ok((source, folder.join("tokenizer_config.json"))),
        None => Err(LoadError::NoTemplate {
            folder: folder.to_owned(),
        }),
    }
}

/// An absent file says nothing, which is what the default says.
fn read_json<T: DeserializeOwned + Default>(path: PathBuf) -> Result<T, LoadError> {
    match read_if_there(&path)? {
        None => Ok(T::default()),
        Some(bytes) => serde_json::from_slice(&bytes).map_err(|error| LoadError::Json {
            path,
            reason: error.to_string(),
        }),
    }
}

fn read_if_there(path: &Path) -> Result<Option<Vec<u8>>, LoadError> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(LoadError::Read {
            path: path.to_owned(),
            source,
        }),
    }
}
