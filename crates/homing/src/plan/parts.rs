//! What a frontend is connected to, for the console's architecture page.

use ::console::{Part, PartKind};

use super::{DynamoPlan, DynamoRegistry, Found, OwnWorkers, ServingPlan, Source, WorkerSources};

/// The parts of a deployment that its options name, each once.
pub(super) fn of_models(models: &[ServingPlan]) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for part in models.iter().flat_map(|model| of_sources(&model.workers)) {
        if !parts.contains(&part) {
            parts.push(part);
        }
    }
    parts
}

fn of_sources(workers: &WorkerSources) -> Vec<Part> {
    let mut parts = match &workers.source {
        Source::Own(own) => of_own(own),
        Source::Dynamo(dynamo) => of_dynamo(dynamo),
    };
    if let Some(more) = &workers.upstreams.more {
        parts.push(part(PartKind::Discovery, "Watched list", more.to_string()));
    }
    parts
}

fn of_own(own: &OwnWorkers) -> Vec<Part> {
    let requests = match &own.tls {
        Some(_) => "gRPC over mutual TLS",
        None => "gRPC",
    };
    let discovery = match &own.found {
        // Servers of other engines have protocols of their own.
        Found::Listed(addresses) if addresses.is_empty() => return Vec::new(),
        Found::Listed(addresses) => {
            let count = format!("{} addresses", addresses.len());
            part(PartKind::Discovery, "Static list", count)
        }
        Found::Etcd(etcd) => part(PartKind::Discovery, "etcd", etcd.to_string()),
        Found::Kubernetes(settings) => {
            let service = format!("Service {}", settings.service);
            part(PartKind::Discovery, "Kubernetes", service)
        }
    };
    let events = match &own.nats {
        Some(nats) => part(PartKind::Events, "NATS", without_credentials(nats)),
        None => Part::new(PartKind::Events, "gRPC, from each worker", None),
    };
    vec![
        discovery,
        events,
        Part::new(PartKind::Requests, requests, None),
    ]
}

fn of_dynamo(dynamo: &DynamoPlan) -> Vec<Part> {
    let discovery = match &dynamo.registry {
        DynamoRegistry::Etcd(etcd) => part(PartKind::Discovery, "etcd", etcd.to_string()),
        DynamoRegistry::Files(folder) => {
            part(PartKind::Discovery, "Files", folder.display().to_string())
        }
        DynamoRegistry::Kubernetes { namespace } => Part::new(
            PartKind::Discovery,
            "Kubernetes",
            namespace.as_ref().map(|name| format!("namespace {name}")),
        ),
    };
    vec![
        discovery,
        Part::new(PartKind::Events, "ZeroMQ, from each worker", None),
        Part::new(PartKind::Requests, "Dynamo's TCP request plane", None),
    ]
}

fn part(kind: PartKind, name: &str, detail: String) -> Part {
    Part::new(kind, name, Some(detail))
}

/// An address as everybody may read it.
fn without_credentials(address: &str) -> String {
    match address.split_once("://") {
        Some((scheme, rest)) => {
            let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
            format!("{scheme}://{host}")
        }
        None => address.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_reads_a_password() {
        assert_eq!(without_credentials("nats://a:b@n:4222"), "nats://n:4222");
        assert_eq!(without_credentials("nats://n:4222"), "nats://n:4222");
        assert_eq!(without_credentials("n:4222"), "n:4222");
    }
}
