//! How an operator names an engine: `vllm=http://host:8000,events=tcp://host:5557`.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use http::Uri;
use http::uri::Scheme;
use xxhash_rust::xxh3::xxh3_64;

use crate::dialect::CacheEvents;
use crate::kind::EngineKind;

/// One engine, as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineSpec {
    pub kind: EngineKind,
    /// Without a slash at the end and without `/v1`.
    pub url: String,
    /// Where it publishes cache events (ZeroMQ).
    pub events: Option<String>,
    /// Where it sends missed events again (ZeroMQ).
    pub replay: Option<String>,
    /// Only events with this topic; all of them if it is empty.
    pub topic: String,
    /// Requests that it runs at once; overrides what the engine reports.
    pub slots: Option<u32>,
    /// Blocks that its memory holds; overrides what the engine reports.
    pub blocks: Option<u32>,
    /// The displayed name; kind and address by default.
    pub name: Option<String>,
    /// The name under which the engine serves the model; its first model by default.
    pub model: Option<String>,
    /// The worker's id; a hash of the address by default.
    pub id: Option<u64>,
    /// What it drafts with. No engine reports it.
    pub drafts: Option<Drafter>,
}

/// What proposes the tokens that an engine verifies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drafter {
    /// A smaller model.
    DraftModel,
    Eagle3,
    /// What stood in the text before.
    Ngram,
}

impl Drafter {
    const ALL: [Self; 3] = [Self::DraftModel, Self::Eagle3, Self::Ngram];

    const fn option(self) -> &'static str {
        match self {
            Self::DraftModel => "draft",
            Self::Eagle3 | Self::Ngram => self.as_str(),
        }
    }

    /// As on the cards of our own workers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DraftModel => "draft-model",
            Self::Eagle3 => "eagle3",
            Self::Ngram => "ngram",
        }
    }
}

/// What is wrong with a specification, and with which part of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    #[error("`{0}` is not of the form KIND=URL[,option=value]")]
    Form(String),
    #[error("`{0}` is not a kind of engine: {kinds}", kinds = kinds())]
    Kind(String),
    #[error("`{0}` is not an address such as http://127.0.0.1:8000")]
    Url(String),
    #[error("{option}: `{value}` is not an address such as tcp://127.0.0.1:5557")]
    Socket { option: &'static str, value: String },
    #[error("{option}: `{value}` is not a number above 0")]
    Number { option: &'static str, value: String },
    #[error(
        "`{0}` is not an option of an engine: events, replay, topic, slots, blocks, name, model, id or drafts"
    )]
    Option(String),
    #[error("`{0}` is given twice: leave one of them out")]
    Twice(&'static str),
    #[error("drafts: `{0}` is not draft, eagle3 or ngram")]
    Drafter(String),
    #[error("{0}: is empty")]
    Empty(&'static str),
    #[error("{option}: {kind} has no such option, because it publishes no events over ZeroMQ")]
    NotOfKind {
        option: &'static str,
        kind: EngineKind,
    },
    #[error("{0}: needs events= as well")]
    NeedsEvents(&'static str),
}

impl FromStr for EngineSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let form = || SpecError::Form(text.to_owned());
        let mut parts = text.split(',');
        let (kind, url) = parts
            .next()
            .and_then(|part| part.split_once('='))
            .ok_or_else(form)?;
        let mut spec = Self {
            kind: self::kind(kind)?,
            url: self::url(url)?,
            events: None,
            replay: None,
            topic: String::new(),
            slots: None,
            blocks: None,
            name: None,
            model: None,
            id: None,
            drafts: None,
        };
        let mut seen = Vec::new();
        for part in parts {
            let (key, value) = part.split_once('=').ok_or_else(form)?;
            let option = spec.set(key.trim(), value.trim())?;
            if seen.contains(&option) {
                return Err(SpecError::Twice(option));
            }
            seen.push(option);
        }
        spec.check()?;
        Ok(spec)
    }
}

impl EngineSpec {
    /// The name that was given, or kind and address.
    pub fn display_name(&self) -> String {
        self.name.clone().unwrap_or_else(|| {
            let address = self
                .url
                .split_once("://")
                .map_or(self.url.as_str(), |(_, rest)| rest);
            format!("{}-{address}", self.kind)
        })
    }

    /// The id that was given, or a hash of the address. At most 53 bits, so that JavaScript
    /// reads it without loss.
    pub fn worker_id(&self) -> u64 {
        self.id
            .unwrap_or_else(|| xxh3_64(self.url.as_bytes()) >> 11)
    }

    /// Where its server listens; `None` if that takes a name to be resolved.
    pub fn address(&self) -> Option<SocketAddr> {
        let uri: Uri = self.url.parse().ok()?;
        let host = uri.host()?.trim_start_matches('[').trim_end_matches(']');
        let host: IpAddr = host.parse().ok()?;
        let usual = match uri.scheme() == Some(&Scheme::HTTPS) {
            true => 443,
            false => 80,
        };
        Some(SocketAddr::new(host, uri.port_u16().unwrap_or(usual)))
    }

    fn set(&mut self, key: &str, value: &str) -> Result<&'static str, SpecError> {
        Ok(match key {
            "events" => {
                self.events = Some(socket("events", value)?);
                "events"
            }
            "replay" => {
                self.replay = Some(socket("replay", value)?);
                "replay"
            }
            "topic" => {
                value.clone_into(&mut self.topic);
                "topic"
            }
            "slots" => {
                self.slots = Some(number("slots", value)?);
                "slots"
            }
            "blocks" => {
                self.blocks = Some(number("blocks", value)?);
                "blocks"
            }
            "name" => {
                self.name = Some(filled("name", value)?);
                "name"
            }
            "model" => {
                self.model = Some(filled("model", value)?);
                "model"
            }
            "id" => {
                self.id = Some(number("id", value)?);
                "id"
            }
            "drafts" => {
                self.drafts = Some(drafter(value)?);
                "drafts"
            }
            _ => return Err(SpecError::Option(key.to_owned())),
        })
    }

    fn check(&self) -> Result<(), SpecError> {
        let publishes = matches!(self.kind.dialect().events, CacheEvents::Published { .. });
        let options = [("events", &self.events), ("replay", &self.replay)];
        for (option, value) in options {
            if value.is_some() && !publishes {
                let kind = self.kind;
                return Err(SpecError::NotOfKind { option, kind });
            }
        }
        if self.replay.is_some() && self.events.is_none() {
            return Err(SpecError::NeedsEvents("replay"));
        }
        if !self.topic.is_empty() && self.events.is_none() {
            return Err(SpecError::NeedsEvents("topic"));
        }
        Ok(())
    }
}

/// All kinds, for an error message.
fn kinds() -> String {
    EngineKind::ALL.map(EngineKind::as_str).join(", ")
}

fn kind(text: &str) -> Result<EngineKind, SpecError> {
    let text = text.trim();
    let known = EngineKind::ALL
        .into_iter()
        .find(|kind| kind.as_str() == text);
    known.ok_or_else(|| SpecError::Kind(text.to_owned()))
}

fn url(text: &str) -> Result<String, SpecError> {
    let wrong = || SpecError::Url(text.to_owned());
    let trimmed = text.trim().trim_end_matches('/');
    let trimmed = trimmed.strip_suffix("/v1").unwrap_or(trimmed);
    let uri: Uri = trimmed.parse().map_err(|_| wrong())?;
    let known = uri.scheme() == Some(&Scheme::HTTP) || uri.scheme() == Some(&Scheme::HTTPS);
    if !known || uri.authority().is_none() || uri.query().is_some() {
        return Err(wrong());
    }
    Ok(trimmed.to_owned())
}

fn socket(option: &'static str, value: &str) -> Result<String, SpecError> {
    let wrong = || SpecError::Socket {
        option,
        value: value.to_owned(),
    };
    let rest = value.strip_prefix("tcp://").ok_or_else(wrong)?;
    let (host, port) = rest.rsplit_once(':').ok_or_else(wrong)?;
    if host.is_empty() || host == "*" || !port.parse::<u16>().is_ok_and(|port| port > 0) {
        return Err(wrong());
    }
    Ok(value.to_owned())
}

fn number<T: FromStr + PartialOrd + From<u8>>(
    option: &'static str,
    value: &str,
) -> Result<T, SpecError> {
    let number = value.parse().ok().filter(|number| *number > T::from(0));
    number.ok_or_else(|| SpecError::Number {
        option,
        value: value.to_owned(),
    })
}

fn drafter(value: &str) -> Result<Drafter, SpecError> {
    let mut all = Drafter::ALL.into_iter();
    all.find(|drafter| drafter.option() == value)
        .ok_or_else(|| SpecError::Drafter(value.to_owned()))
}

fn filled(option: &'static str, value: &str) -> Result<String, SpecError> {
    if value.is_empty() {
        return Err(SpecError::Empty(option));
    }
    Ok(value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_enough() {
        let spec: EngineSpec = "openai=http://a.example:8000/v1/".parse().unwrap();
        assert_eq!(spec.kind, EngineKind::Openai);
        assert_eq!(spec.url, "http://a.example:8000");
        assert_eq!(spec.display_name(), "openai-a.example:8000");
        let again: EngineSpec = "openai=http://a.example:8000".parse().unwrap();
        assert_eq!(spec.worker_id(), again.worker_id());
    }

    #[test]
    fn every_option_has_a_place() {
        let text = "vllm=https://h:1/base,events=tcp://h:5557,replay=tcp://h:5558,topic=kv,\
                    slots=64,blocks=9000,name=left,model=org/m,id=7,drafts=draft";
        let spec: EngineSpec = text.parse().unwrap();
        assert_eq!(spec.url, "https://h:1/base");
        assert_eq!(spec.events.as_deref(), Some("tcp://h:5557"));
        assert_eq!(spec.replay.as_deref(), Some("tcp://h:5558"));
        assert_eq!(spec.topic, "kv");
        assert_eq!((spec.slots, spec.blocks), (Some(64), Some(9000)));
        assert_eq!(spec.display_name(), "left");
        assert_eq!(spec.model.as_deref(), Some("org/m"));
        assert_eq!(spec.worker_id(), 7);
        assert_eq!(spec.drafts, Some(Drafter::DraftModel));
    }

    #[test]
    fn an_address_without_a_name_is_known() {
        for (url, address) in [
            ("http://10.0.0.1:8000", Some("10.0.0.1:8000")),
            ("http://[fd00::1]:8000/v1", Some("[fd00::1]:8000")),
            ("http://10.0.0.1", Some("10.0.0.1:80")),
            ("https://10.0.0.1/base", Some("10.0.0.1:443")),
            ("http://localhost:8000", None),
        ] {
            let spec: EngineSpec = format!("openai={url}").parse().unwrap();
            let expected = address.map(|address| address.parse().unwrap());
            assert_eq!(spec.address(), expected, "{url}");
        }
    }

    #[track_caller]
    fn refused(text: &str, says: &str) {
        let error = text.parse::<EngineSpec>().unwrap_err().to_string();
        assert!(error.contains(says), "`{text}` gave: {error}");
    }

    #[test]
    fn errors_name_the_part() {
        refused("", "form");
        refused("http://a:1", "form");
        refused("llama=http://a:1", "`llama`");
        refused("vllm=a:1", "`a:1`");
        refused("vllm=http://", "address");
        refused("vllm=http://a:1,events", "form");
        refused("vllm=http://a:1,events=udp://a:1", "events");
        refused("vllm=http://a:1,events=tcp://*:5557", "events");
        refused("vllm=http://a:1,events=tcp://a:0", "events");
        refused("vllm=http://a:1,slots=0", "slots");
        refused("vllm=http://a:1,slots=many", "`many`");
        refused("vllm=http://a:1,slots=1,slots=2", "twice");
        refused("vllm=http://a:1,name=", "name");
        refused("vllm=http://a:1,speed=9", "`speed`");
        refused("vllm=http://a:1,drafts=medusa", "`medusa`");
        refused("vllm=http://a:1,drafts=", "drafts");
        refused("vllm=http://a:1,replay=tcp://a:5", "needs events");
        refused("vllm=http://a:1,topic=kv", "needs events");
        refused("openai=http://a:1,events=tcp://a:5", "openai has no");
        refused("trtllm=http://a:1,events=tcp://a:5", "trtllm has no");
    }
}
