//! The web console of `homing frontend`, resolved.

use std::net::{IpAddr, SocketAddr};

use ::console::LoadElsewhere;
use anyhow::{Context as _, ensure};
use contract::Visitors;
use http_client::{HttpClient, HttpOptions};

use super::load::GPU_LOAD;
use super::{BaselinePlan, ConsolePlan, LoadPlan, ServingPlan, parts};
use crate::args::FrontendConsoleArgs;
use crate::environment::secret;
use crate::process::Endpoint;

/// The web console of a frontend.
pub(crate) struct FrontendConsolePlan {
    pub(crate) place: ConsolePlace,
    pub(crate) page: ConsolePlan,
    pub(crate) load: ConsoleLoad,
}

/// Where a console listens, and who may come.
pub(crate) struct ConsolePlace {
    pub(crate) at: Endpoint,
    pub(crate) visitors: Visitors,
}

/// Where the load comes from that the console drives.
pub(crate) enum ConsoleLoad {
    None,
    Here {
        plan: Box<LoadPlan>,
        /// What it asks the API with.
        api_key: Option<String>,
    },
    Elsewhere(LoadElsewhere),
}

/// Who is served.
pub(super) struct Audience<'a> {
    /// Where the console listens.
    pub(super) host: IpAddr,
    /// Whether clients of the API need keys.
    pub(super) has_keys: bool,
    pub(super) allowed_hosts: &'a [String],
}

impl FrontendConsoleArgs {
    /// `None` if there is to be no console.
    pub(super) fn resolve(
        self,
        audience: Audience<'_>,
        seed: u64,
        models: &[ServingPlan],
    ) -> anyhow::Result<Option<FrontendConsolePlan>> {
        let Some(port) = self.console_port else {
            return Ok(None);
        };
        let Audience {
            host,
            has_keys,
            allowed_hosts,
        } = audience;
        let place = ConsolePlace {
            at: Endpoint {
                address: SocketAddr::new(host, port),
                option: "--console-port",
            },
            visitors: Visitors::new(host.is_loopback(), has_keys, allowed_hosts),
        };
        let no_baseline = BaselinePlan::None;
        let mut page = self.page.resolve(self.slo.slo, no_baseline)?;
        page.parts.extend(parts::of_models(models));
        let read = |name: Option<&String>, option: &'static str| {
            let value = name.map(|name| secret(name).context(option));
            value.transpose()
        };
        let token = read(self.load_token_env.as_ref(), "--load-token-env")?;
        let api_key = read(self.load_api_key_env.as_ref(), "--load-api-key-env")?;
        let load = match (&self.load_url, self.load.resolve(GPU_LOAD, seed)) {
            (Some(url), _) => {
                let transport = HttpClient::network(HttpOptions::default());
                let load = LoadElsewhere::new(url, token.as_deref(), transport);
                ConsoleLoad::Elsewhere(load.context("--load")?)
            }
            (None, None) => ConsoleLoad::None,
            (None, Some(plan)) => {
                ensure!(
                    api_key.is_some() || !has_keys,
                    "--api-key-file: the console's load generator needs one of the keys \
                     (--load-api-key-env); name one elsewhere with --load, or use --no-load"
                );
                ConsoleLoad::Here {
                    plan: Box::new(plan),
                    api_key,
                }
            }
        };
        Ok(Some(FrontendConsolePlan { place, page, load }))
    }
}
