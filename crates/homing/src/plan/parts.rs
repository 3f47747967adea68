//! What a frontend is connected to, for the console's architecture page.

use ::console::{Part, PartKind};

use nats::without_credentials;

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
    let events = events(own.nats.as_deref(), "gRPC, from each worker");
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
    // Each worker announces which of them it uses.
    let requests = match &dynamo.nats {
        Some(_) => "Dynamo's request plane, TCP or NATS",
        None => "Dynamo's TCP request plane",
    };
    vec![
        discovery,
        events(dynamo.nats.as_deref(), "ZeroMQ, from each worker"),
        Part::new(PartKind::Requests, requests, None),
    ]
}

/// Over a server if there is one, otherwise `without` any.
fn events(nats: Option<&str>, without: &str) -> Part {
    match nats {
        Some(nats) => part(PartKind::Events, "NATS", without_credentials(nats)),
        None => Part::new(PartKind::Events, without, None),
    }
}

fn part(kind: PartKind, name: &str, detail: String) -> Part {
    Part::new(kind, name, Some(detail))
}
