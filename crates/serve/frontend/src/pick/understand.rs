//! What can be understood of a request that a proxy carries, for routing alone.

use std::sync::Arc;

use bytes::Bytes;
use contract::{BlockHash, ForwardRequest, HashSeed, RequestId, TokenId};
use openai::{UnknownFields, forward};
use router::{Excluded, RouteQuery};

use crate::App;
use crate::asked::AnyRequest;
use crate::dispatch::Urgency;
use crate::forward::{gist, prompt_of};
use crate::metrics::Endpoint;
use crate::model::{Found, ServedModel};

/// A request of an API that we know.
#[derive(Debug)]
pub(super) struct Understood {
    pub(super) model: Arc<ServedModel>,
    /// Without its body.
    pub(super) forward: ForwardRequest,
    /// As the engine will render it; empty if that is not known.
    pub(super) prompt: Arc<[TokenId]>,
    pub(super) chain: Vec<BlockHash>,
    pub(super) seed: HashSeed,
}

impl Understood {
    /// `None` for a body that makes no sense to us.
    pub(super) fn read(app: &App, endpoint: Endpoint, body: &Bytes) -> Option<Self> {
        let read = forward::read(body).ok()?;
        let Found { model, adapter } = find(app, read.model.as_deref())?;
        let path = endpoint.engine_path();
        let asked = match path.generates() {
            false => None,
            true => match AnyRequest::parse(app, endpoint, body, "", UnknownFields::Ignore) {
                Ok(request) => Some(request.asked),
                Err(_) => gist(app, endpoint, body),
            },
        };
        let prompt = asked.map(|asked| prompt_of(&asked, &model.preprocessor));
        let prompt = prompt.unwrap_or_default();
        let seed = HashSeed::new(
            adapter.as_deref().unwrap_or(""),
            read.cache_salt.as_deref().unwrap_or(""),
        );
        let blocks = model.dispatch.limits.blocks;
        Some(Self {
            chain: blocks.chain(&prompt, seed),
            prompt: prompt.into(),
            seed,
            forward: ForwardRequest {
                path,
                model: read.model.unwrap_or_default(),
                body: Bytes::new(),
                stream: read.stream,
                include_usage: read.include_usage,
                adapter,
            },
            model,
        })
    }

    pub(super) fn prompt_tokens(&self) -> u32 {
        u32::try_from(self.prompt.len()).unwrap_or(u32::MAX)
    }
}

/// What the router is asked, without a deadline. What was not understood is routed by load.
pub(super) fn query<'a>(
    id: &RequestId,
    understood: Option<&'a Understood>,
    excluded: &'a [Excluded],
    urgency: Urgency,
) -> RouteQuery<'a> {
    RouteQuery {
        request: id.clone(),
        prompt_tokens: understood.map_or(0, Understood::prompt_tokens),
        chain: understood.map_or(&[], |understood| &understood.chain),
        excluded,
        identity: urgency.identity,
        priority: urgency.priority,
        deadline: None,
    }
}

/// The model of that name, or the first: a name that only the engines know is theirs to judge. An
/// adapter is known by the workers that have loaded it, too.
fn find(app: &App, name: Option<&str>) -> Option<Found> {
    if let Some(name) = name {
        if let Ok(found) = app.models.find(name) {
            return Some(found);
        }
        let models = app.models.all();
        let loaded = models
            .iter()
            .find(|model| model.dispatch.fleet.has_adapter(name));
        if let Some(model) = loaded {
            return Some(Found {
                model: Arc::clone(model),
                adapter: Some(name.to_owned()),
            });
        }
    }
    Some(Found {
        model: app.models.first()?,
        adapter: None,
    })
}
