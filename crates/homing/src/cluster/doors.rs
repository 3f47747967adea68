//! Where clients come in to a frontend: the API's port, and the console's if there is one.

use std::io;
use std::net::SocketAddr;

use ::loadgen::LoadGenerator;
use frontend::{Listening, Tls};
use tasks::Tasks;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::console::{ConsoleListener, ConsoleSite};
use crate::https;
use crate::plan::FrontendConsolePlan;
use crate::process::{Endpoint, reachable};

/// Ports that are bound and not served yet.
pub(super) struct Doors {
    api: TcpListener,
    console: Option<ConsoleListener>,
}

/// Where clients find them.
pub(super) struct Urls {
    pub(super) api: String,
    pub(super) console: Option<String>,
}

impl Doors {
    pub(super) async fn open(
        api: Endpoint,
        console: Option<FrontendConsolePlan>,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            api: api.listen().await?,
            console: match console {
                Some(plan) => Some(ConsoleListener::listen(plan).await?),
                None => None,
            },
        })
    }

    pub(super) fn urls(&self, tls: Option<&Tls>) -> io::Result<Urls> {
        Ok(Urls {
            api: https::url(tls, self.api.local_addr()?),
            console: match &self.console {
                Some(console) => Some(https::url(tls, console.address()?)),
                None => None,
            },
        })
    }

    /// Where this machine reaches the API.
    pub(super) fn inside(&self) -> io::Result<SocketAddr> {
        Ok(reachable(self.api.local_addr()?))
    }

    /// Serves until `drain` fires. The load generator of this process is returned, if there is one.
    pub(super) async fn serve(
        self,
        site: ConsoleSite<'_>,
        listening: Listening,
        tasks: &Tasks,
        drain: &CancellationToken,
    ) -> anyhow::Result<Option<LoadGenerator>> {
        let routes = site.frontend.service();
        tasks.spawn(frontend::serve(
            self.api,
            routes,
            listening.clone(),
            drain.clone(),
        ));
        match self.console {
            Some(console) => console.start(site, &listening, tasks, drain).await,
            None => Ok(None),
        }
    }
}
