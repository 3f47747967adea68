//! A worker's description of itself, and whether a frontend can use it.
//!
//! The same JSON text stands in etcd for people to read and is sent to every frontend that
//! attaches, so there is one description and no second truth. A frontend that expects
//! something else is refused by the worker with a sentence that names both values; both sides
//! log it.

use contract::{BlockFormat, WorkerCard};
use serde::{Deserialize, Serialize};

/// A worker as others find it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Registration {
    pub cluster: String,
    pub card: WorkerCard,
    /// Differs each time the worker starts.
    pub epoch: u64,
    /// Where its request plane is: `http://host:port`, or `https://` with certificates.
    pub address: String,
    /// Where its events can be heard.
    pub events: EventAddress,
}

/// Where a worker publishes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "plane", rename_all = "kebab-case")]
pub enum EventAddress {
    /// A stream of the request plane's own server.
    Grpc,
    Nats {
        subject: String,
    },
    Zmq {
        publish: String,
        /// Where missed batches can be asked for.
        replay: String,
    },
}

/// What a frontend expects of its workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    pub cluster: String,
    pub model: String,
    pub blocks: BlockFormat,
}

/// Why a frontend and a worker do not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the frontend expects {what} {expected}, but worker {worker} has {found}")]
pub struct Mismatch {
    worker: String,
    what: &'static str,
    expected: String,
    found: String,
}

impl Registration {
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a registration has no keys but strings")
    }

    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    pub fn check(&self, expected: &Expected) -> Result<(), Mismatch> {
        let card = &self.card;
        let pairs = [
            ("cluster", expected.cluster.clone(), self.cluster.clone()),
            ("model", expected.model.clone(), card.model.to_string()),
            (
                "a block size of",
                expected.blocks.size.to_string(),
                card.blocks.size.to_string(),
            ),
            (
                "block hashes of",
                expected.blocks.hashing.to_string(),
                card.blocks.hashing.to_string(),
            ),
        ];
        for (what, expected, found) in pairs {
            if expected != found {
                let worker = card.name.clone();
                return Err(Mismatch {
                    worker,
                    what,
                    expected,
                    found,
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use contract::{Abilities, GpuSpec, Hashing, ModelName, WorkerId};

    use super::*;

    pub(crate) fn registration() -> Registration {
        Registration {
            cluster: "default".to_owned(),
            card: WorkerCard {
                id: WorkerId(u64::MAX),
                name: "worker-a".to_owned(),
                model: ModelName::new("m"),
                blocks: BlockFormat::new(32),
                total_blocks: 1000,
                slots: 64,
                max_step_tokens: 8192,
                max_context_tokens: 32_768,
                gpu: GpuSpec {
                    kind: "GPU".to_owned(),
                    count: 1,
                    memory_bytes: 1,
                },
                engine: "test".to_owned(),
                simulated: true,
                abilities: Abilities::default(),
                speculation: "none".to_owned(),
                forwards: Vec::new(),
                adapters: Vec::new(),
            },
            epoch: 5,
            address: "http://127.0.0.1:7000".to_owned(),
            events: EventAddress::Zmq {
                publish: "tcp://127.0.0.1:7001".to_owned(),
                replay: "tcp://127.0.0.1:7002".to_owned(),
            },
        }
    }

    pub(crate) fn expected() -> Expected {
        Expected {
            cluster: "default".to_owned(),
            model: "m".to_owned(),
            blocks: BlockFormat::new(32),
        }
    }

    #[test]
    fn a_registration_survives_its_text() {
        let registration = registration();
        assert_eq!(
            Registration::from_json(&registration.to_json()).unwrap(),
            registration
        );
        assert!(Registration::from_json("{}").is_err());
    }

    #[test]
    fn who_expects_something_else_is_told_both_values() {
        let registration = registration();
        assert_eq!(registration.check(&expected()), Ok(()));
        let wishes = [
            (
                Expected {
                    model: "other".to_owned(),
                    ..expected()
                },
                "expects model other, but worker worker-a has m",
            ),
            (
                Expected {
                    blocks: BlockFormat::new(16),
                    ..expected()
                },
                "expects a block size of 16, but worker worker-a has 32",
            ),
            (
                Expected {
                    blocks: BlockFormat {
                        hashing: Hashing {
                            lookahead: 1,
                            ..Hashing::default()
                        },
                        ..expected().blocks
                    },
                    ..expected()
                },
                "lookahead 1, but worker worker-a has version 1, lookahead 0",
            ),
            (
                Expected {
                    cluster: "two".to_owned(),
                    ..expected()
                },
                "expects cluster two",
            ),
        ];
        for (wish, part) in wishes {
            let message = registration.check(&wish).unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
    }
}
