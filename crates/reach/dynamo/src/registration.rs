//! What a Dynamo worker registers, in any kind of registry.
//!
//! Keys differ between versions. Values carry their type and everything that matters, so a key
//! only says which value appears and vanishes.

use std::fmt;

use serde::Deserialize;

use crate::wire::{Codec, DecodeError, event};

/// The largest value worth reading: etcd takes no larger one.
pub const LARGEST_VALUE: usize = 2 << 20;

/// A registration that is relevant to us.
#[derive(Clone, Debug, PartialEq)]
pub enum Registration {
    Endpoint(Endpoint),
    Model(Box<Model>),
    /// Where cache events are published.
    Channel(Channel),
    /// Whose events they are. Not every version registers it.
    Source(Source),
}

/// An endpoint that takes requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    pub name: EndpointName,
    pub instance: u64,
    /// `None` if it cannot be reached over TCP or NATS.
    pub address: Option<Address>,
    /// What it computes on: `cuda`.
    pub device: Option<String>,
}

/// `dynamo/backend/generate`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointName {
    pub namespace: String,
    pub component: String,
    pub endpoint: String,
}

impl EndpointName {
    /// Whether a subject of NATS is one of its component's.
    pub(crate) fn owns(&self, subject: &str) -> bool {
        let component = format!("namespace.{}.component.{}.", self.namespace, self.component);
        subject.starts_with(&component)
    }
}

impl fmt::Display for EndpointName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            namespace,
            component,
            endpoint,
        } = self;
        write!(f, "{namespace}/{component}/{endpoint}")
    }
}

/// How to reach an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    pub target: Target,
    pub codec: Codec,
}

/// Where requests to an endpoint are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    Tcp {
        /// `host:port`
        host: String,
        /// Names the endpoint among those of its server.
        path: String,
    },
    Nats {
        subject: String,
    },
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, path } => write!(f, "{host}/{path}"),
            Self::Nats { subject } => write!(f, "{subject} on NATS"),
        }
    }
}

/// A model that an instance of an endpoint serves.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    pub name: EndpointName,
    pub instance: u64,
    pub card: ModelCard,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channel {
    pub namespace: Option<String>,
    /// In the first versions, the id of its worker.
    pub publisher: u64,
    pub address: ChannelAddress,
}

/// Where cache events are published.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChannelAddress {
    /// `tcp://host:port`, one for each publisher.
    Zmq(String),
    /// A subject, which all workers of an endpoint share.
    Nats(String),
}

impl fmt::Display for ChannelAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zmq(address) => f.write_str(address),
            Self::Nats(subject) => write!(f, "{subject} on NATS"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    pub publisher: u64,
    pub worker: u64,
}

/// The fields of a model card that are read.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct ModelCard {
    pub display_name: String,
    #[serde(default)]
    pub source_path: Option<String>,
    #[serde(default)]
    pub tokenizer: Option<serde_json::Value>,
    #[serde(default)]
    pub kv_cache_block_size: u32,
    #[serde(default)]
    pub context_length: Option<u32>,
    #[serde(default)]
    pub architectural_max_context_length: Option<u32>,
    #[serde(default)]
    pub model_type: String,
    #[serde(default)]
    pub model_input: String,
    #[serde(default)]
    pub worker_type: Option<String>,
    #[serde(default)]
    pub needs: Vec<serde_json::Value>,
    #[serde(default)]
    pub lora: Option<serde_json::Value>,
    #[serde(default)]
    pub runtime_config: RuntimeConfig,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct RuntimeConfig {
    #[serde(default)]
    pub context_length: Option<u32>,
    #[serde(default)]
    pub total_kv_blocks: Option<u64>,
    #[serde(default)]
    pub max_num_seqs: Option<u64>,
    #[serde(default)]
    pub max_num_batched_tokens: Option<u64>,
    #[serde(default)]
    pub data_parallel_start_rank: u32,
    #[serde(default)]
    pub data_parallel_size: Option<u32>,
    #[serde(default)]
    pub enable_local_indexer: bool,
    #[serde(default)]
    pub enable_eagle: bool,
    #[serde(default)]
    pub runtime_data: serde_json::Map<String, serde_json::Value>,
}

#[derive(Deserialize)]
#[serde(tag = "type")]
enum Value {
    Endpoint(EndpointValue),
    Model(Box<ModelValue>),
    EventChannel(ChannelValue),
    EventSource(SourceValue),
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct EndpointValue {
    namespace: String,
    component: String,
    endpoint: String,
    instance_id: u64,
    transport: serde_json::Value,
    #[serde(default)]
    device_type: Option<String>,
    #[serde(default)]
    request_plane_codec: Option<String>,
}

#[derive(Deserialize)]
struct ModelValue {
    namespace: String,
    component: String,
    endpoint: String,
    instance_id: u64,
    card_json: ModelCard,
}

#[derive(Deserialize)]
struct ChannelValue {
    #[serde(default)]
    namespace: Option<String>,
    #[serde(default)]
    scope: serde_json::Value,
    topic: String,
    instance_id: u64,
    transport: serde_json::Value,
}

#[derive(Deserialize)]
struct SourceValue {
    publisher_id: u64,
    #[serde(default)]
    metadata: serde_json::Value,
}

/// Reads a value; `None` if it is of a kind that we do not need.
pub fn decode(value: &[u8]) -> Result<Option<Registration>, DecodeError> {
    if value.len() > LARGEST_VALUE {
        return Err(DecodeError::TooLarge {
            what: "registration",
            size: value.len() as u64,
            limit: LARGEST_VALUE,
        });
    }
    Ok(match Codec::Json.decode("registration", value)? {
        Value::Endpoint(value) => Some(Registration::Endpoint(endpoint(value)?)),
        Value::Model(value) => model(*value).map(|model| Registration::Model(Box::new(model))),
        Value::EventChannel(value) => channel(value).map(Registration::Channel),
        Value::EventSource(value) => source(&value).map(Registration::Source),
        Value::Other => None,
    })
}

fn endpoint(value: EndpointValue) -> Result<Endpoint, DecodeError> {
    let codec = value.request_plane_codec.as_deref().unwrap_or("json");
    let codec = Codec::from_name(codec).ok_or_else(|| {
        DecodeError::malformed("registration", format!("codec `{codec}` is unknown"))
    })?;
    Ok(Endpoint {
        name: EndpointName {
            namespace: value.namespace,
            component: value.component,
            endpoint: value.endpoint,
        },
        instance: value.instance_id,
        address: target(&value.transport).map(|target| Address { target, codec }),
        device: value.device_type,
    })
}

fn target(transport: &serde_json::Value) -> Option<Target> {
    let word = |name: &str| transport.get(name).and_then(|value| value.as_str());
    if let Some(address) = word("tcp") {
        let (host, path) = address.split_once('/')?;
        return Some(Target::Tcp {
            host: host.to_owned(),
            path: path.to_owned(),
        });
    }
    // Requests go over NATS, answers over TCP.
    let subject = word("nats_tcp").filter(|subject| is_subject(subject))?;
    Some(Target::Nats {
        subject: subject.to_owned(),
    })
}

/// `None` for an adapter: it comes beside the model that it adapts.
fn model(value: ModelValue) -> Option<Model> {
    if value
        .card_json
        .lora
        .as_ref()
        .is_some_and(|lora| !lora.is_null())
    {
        return None;
    }
    Some(Model {
        name: EndpointName {
            namespace: value.namespace,
            component: value.component,
            endpoint: value.endpoint,
        },
        instance: value.instance_id,
        card: value.card_json,
    })
}

/// `None` for topics and transports that we do not read.
fn channel(value: ChannelValue) -> Option<Channel> {
    if value.topic != event::TOPIC {
        return None;
    }
    let address = channel_address(&value)?;
    let scope = value.scope.pointer("/endpoint/namespace");
    let scope = scope.or_else(|| value.scope.get("namespace"));
    let scope = scope.and_then(|namespace| namespace.as_str());
    Some(Channel {
        namespace: value.namespace.or_else(|| scope.map(str::to_owned)),
        publisher: value.instance_id,
        address,
    })
}

fn channel_address(value: &ChannelValue) -> Option<ChannelAddress> {
    let config = value.transport.get("config")?;
    let word = |name: &str| config.get(name).and_then(|value| value.as_str());
    if let Some(address) = word("endpoint") {
        let is_direct = address.starts_with("tcp://");
        return is_direct.then(|| ChannelAddress::Zmq(address.to_owned()));
    }
    let subject = format!("{}.{}", word("subject_prefix")?, value.topic);
    is_subject(&subject).then_some(ChannelAddress::Nats(subject))
}

/// Whether it names one subject of NATS: a registration must not make us listen to others.
fn is_subject(word: &str) -> bool {
    word.split('.').all(|token| {
        !token.is_empty()
            && !matches!(token, "*" | ">")
            && token.chars().all(|c| c.is_ascii_graphic())
    })
}

fn source(value: &SourceValue) -> Option<Source> {
    Some(Source {
        publisher: value.publisher_id,
        worker: value.metadata.pointer("/worker/worker_id")?.as_u64()?,
    })
}

#[cfg(test)]
mod tests;
