//! The servers of an InferencePool: its ready pods, each port a server of the same kind.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use adapters::{EngineKind, EngineSpec};
use anyhow::{Context as _, ensure};
use frontend::Objectives;
use kubernetes::{PoolMembers, PoolSettings, PoolWatch};
use tokio::sync::watch;
use tracing::warn;

/// What the servers of a pool are: `vllm,events=tcp://*:5557`, where `*` stands for the pod's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EngineTemplate {
    kind: EngineKind,
    /// As they are written, with their commas.
    options: String,
}

impl FromStr for EngineTemplate {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let (kind, options) = match text.split_once(',') {
            Some((kind, options)) => (kind, options),
            None => (text, ""),
        };
        ensure!(
            !kind.contains('='),
            "expected KIND[,OPTION=VALUE]: the addresses are the pool's"
        );
        for own in ["name=", "id="] {
            let mut options = options.split(',').map(str::trim);
            ensure!(
                !options.any(|option| option.starts_with(own)),
                "{own} cannot be the same for every server of a pool"
            );
        }
        let sample = "127.0.0.1:1".parse().context("a sample address")?;
        let spec = spec(kind, options, sample, 0)?;
        Ok(Self {
            kind: spec.kind,
            options: options.to_owned(),
        })
    }
}

impl fmt::Display for EngineTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}

/// A server at an address. The ports of its events count up with its rank, as vLLM's do.
fn spec(kind: &str, options: &str, address: SocketAddr, rank: u16) -> anyhow::Result<EngineSpec> {
    let mut text = format!("{kind}=http://{address}");
    for option in options.split(',').filter(|option| !option.is_empty()) {
        text.push(',');
        match option.split_once("//*:") {
            Some((before, port)) => {
                let port: u16 = port.parse().with_context(|| format!("`{option}`"))?;
                let port = port.checked_add(rank).context("the ports end at 65535")?;
                let host = SocketAddr::new(address.ip(), port);
                text.push_str(&format!("{before}//{host}"));
            }
            None => text.push_str(option),
        }
    }
    Ok(text.parse()?)
}

impl EngineTemplate {
    pub(crate) fn kind(&self) -> EngineKind {
        self.kind
    }

    /// The servers of these pods, in the order of their addresses.
    fn servers(&self, members: &PoolMembers) -> anyhow::Result<Vec<EngineSpec>> {
        let pod = |host: &IpAddr| {
            let host = *host;
            let ports = members.ports.iter().zip(0_u16..);
            ports.map(move |(port, rank)| {
                let address = SocketAddr::new(host, *port);
                spec(&self.kind.to_string(), &self.options, address, rank)
            })
        };
        members.hosts.iter().flat_map(pod).collect()
    }
}

/// The pool, and what its servers are.
#[derive(Clone, Debug)]
pub(crate) struct PoolPlan {
    pub(crate) settings: PoolSettings,
    pub(crate) template: EngineTemplate,
    /// Where the priorities of its objectives are kept.
    pub(crate) objectives: Objectives,
}

impl fmt::Display for PoolPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pods of the InferencePool {}", self.settings.name)
    }
}

/// Puts `first` and the servers of the pool into `lists`, and the priorities of its objectives where they
/// are kept, as they come and go.
pub(crate) async fn follow(
    plan: PoolPlan,
    mut pool: PoolWatch,
    first: Vec<EngineSpec>,
    lists: watch::Sender<Vec<EngineSpec>>,
) {
    loop {
        tokio::select! {
            Some(members) = pool.members.recv() => match plan.template.servers(&members) {
                Ok(servers) => {
                    lists.send_replace([&first[..], &servers].concat());
                }
                Err(error) => warn!(%error, "the list of endpoints was not changed"),
            },
            Some(priorities) = pool.objectives.recv() => plan.objectives.watch(priorities),
            // The watch has been stopped.
            else => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers(template: &str, hosts: &[&str], ports: &[u16]) -> Vec<EngineSpec> {
        let template: EngineTemplate = template.parse().unwrap();
        let hosts = hosts.iter().map(|host| host.parse().unwrap()).collect();
        let ports = ports.to_vec();
        template.servers(&PoolMembers { hosts, ports }).unwrap()
    }

    #[test]
    fn each_port_of_each_pod_is_a_server() {
        let found = servers(
            "vllm,events=tcp://*:5557,slots=8",
            &["10.0.0.2", "10.0.0.1"],
            &[8000, 8001],
        );
        let seen: Vec<(&str, Option<&str>)> = found
            .iter()
            .map(|one| (one.url.as_str(), one.events.as_deref()))
            .collect();
        assert_eq!(
            seen,
            [
                ("http://10.0.0.1:8000", Some("tcp://10.0.0.1:5557")),
                ("http://10.0.0.1:8001", Some("tcp://10.0.0.1:5558")),
                ("http://10.0.0.2:8000", Some("tcp://10.0.0.2:5557")),
                ("http://10.0.0.2:8001", Some("tcp://10.0.0.2:5558")),
            ]
        );
        assert!(found.iter().all(|one| one.slots == Some(8)));
    }

    #[test]
    fn an_ipv6_address_has_its_brackets() {
        let found = servers("vllm,events=tcp://*:5557", &["fd00::1"], &[8000]);
        assert_eq!(found[0].url, "http://[fd00::1]:8000");
        assert_eq!(found[0].events.as_deref(), Some("tcp://[fd00::1]:5557"));
    }

    #[test]
    fn what_cannot_be_a_template_is_refused() {
        for text in [
            "vllm=http://a:1",
            "nothing",
            "vllm,name=a",
            "openai,events=tcp://*:x",
        ] {
            assert!(text.parse::<EngineTemplate>().is_err(), "{text}");
        }
        let ports = servers("openai", &["10.0.0.1"], &[]);
        assert!(ports.is_empty());
    }
}
