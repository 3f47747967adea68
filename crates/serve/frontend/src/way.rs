//! Who answers a request: a worker, in tokens, or the server of its engine, in its own words.

use contract::Abilities;
use openai::GenerationOptions;

use crate::App;
use crate::asked::{AnyRequest, ReadBody};
use crate::error::ApiError;
use crate::forward::{self, ForwardMode, Needed, Plan};
use crate::model::Found;

/// Who answers a request.
pub(crate) enum Way {
    /// A worker, in tokens.
    Tokens(AnyRequest),
    /// The server of a worker's own engine, in its own words.
    Engine(Plan),
}

impl Way {
    fn choose(
        app: &App,
        found: &Found,
        read: &ReadBody<'_>,
        parsed: Result<AnyRequest, ApiError>,
    ) -> Result<Self, ApiError> {
        let served = found.model.dispatch.fleet.served();
        let understood = parsed.and_then(|request| {
            check_abilities(request.options(), served.abilities)?;
            Ok(request)
        });
        let path = read.endpoint.engine_path();
        let needed = match (&found.adapter, served.forwards(path)) {
            (None, false) => None,
            (None, true) => forward::need(app.forward, path, &understood),
            (Some(_), true) if app.forward.mode != ForwardMode::Never => match &understood {
                Err(error) if error.unmet().is_none() => None,
                Ok(_) | Err(_) => Some("adapter".to_owned()),
            },
            (Some(adapter), _) => return Err(ApiError::adapter_not_served(adapter)),
        };
        let Some(needed) = needed else {
            return understood.map(Self::Tokens);
        };
        let asked = understood.ok().map(|request| request.asked);
        Plan::new(app, found, read, Needed { needed, asked }).map(Self::Engine)
    }

    pub(crate) fn stream(&self) -> bool {
        match self {
            Self::Tokens(request) => request.options().stream,
            Self::Engine(plan) => plan.request.stream,
        }
    }
}

/// A request whose model is known, and who answers it or why nobody does.
pub(crate) struct Chosen {
    pub(crate) found: Found,
    pub(crate) way: Result<Way, ApiError>,
}

impl Chosen {
    /// `owner` is whose stored conversations it may continue.
    pub(crate) fn new(app: &App, read: &ReadBody<'_>, owner: &str) -> Result<Self, ApiError> {
        let parsed = AnyRequest::parse(app, read.endpoint, read.bytes, owner, app.unknown_fields);
        let found = match &parsed {
            Ok(request) => app.models.find(request.model())?,
            Err(_) => match forward::model_of(app, read) {
                Some(found) => found?,
                None => return Err(parsed.err().unwrap_or_else(ApiError::internal)),
            },
        };
        let way = Way::choose(app, &found, read, parsed);
        Ok(Self { found, way })
    }
}

/// Refuses what the workers' engines cannot do.
fn check_abilities(options: &GenerationOptions, can: Abilities) -> Result<(), ApiError> {
    if options.logprobs.is_some() && !can.logprobs {
        let what = "do not report log-probabilities";
        return Err(ApiError::engine_cannot("logprobs", what));
    }
    if !options.logit_bias.is_empty() && !can.logit_bias {
        let what = "do not take a bias of single tokens";
        return Err(ApiError::engine_cannot("logit_bias", what));
    }
    match &options.constraint {
        Some(constraint) if !can.grammars => {
            let what = "cannot be held to a grammar";
            Err(ApiError::engine_cannot(constraint.param, what))
        }
        Some(_) | None => Ok(()),
    }
}
