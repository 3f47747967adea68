//! Who takes part in a comparison: a mode of the router, or a rule from elsewhere.
//!
//! Rules from elsewhere exist to be compared with, so they are no modes: nobody can switch
//! a server to one. They judge the same figures as the modes do and are given the same
//! exact books and index, which is more than most of them have at home. What they choose
//! is final; a request that finds its worker full waits in that worker's engine.

use std::str::FromStr;

use router::{Mode, ModeError, Policy, RouterConfig, State};

/// One way to route.
#[derive(Clone, Copy, Debug)]
pub enum Contestant {
    Mode(Mode),
    Rival {
        name: &'static str,
        /// Makes the rule, with no memory of earlier choices.
        policy: fn() -> Box<dyn Policy>,
    },
}

impl Contestant {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Mode(mode) => mode.name().as_str(),
            Self::Rival { name, .. } => name,
        }
    }

    /// A router that routes this way, whatever the configuration's mode is.
    pub(crate) fn router(&self, config: RouterConfig) -> State {
        match *self {
            Self::Mode(mode) => State::new(RouterConfig { mode, ..config }),
            Self::Rival { policy, .. } => {
                // With this mode requests wait in the engines. It chooses nothing here.
                let mode = Mode::RoundRobin;
                State::with_policy(RouterConfig { mode, ..config }, policy())
            }
        }
    }
}

impl From<Mode> for Contestant {
    fn from(mode: Mode) -> Self {
        Self::Mode(mode)
    }
}

impl FromStr for Contestant {
    type Err = ModeError;

    /// The mode of that name, with default parameters.
    fn from_str(text: &str) -> Result<Self, ModeError> {
        text.parse().map(Self::Mode)
    }
}

#[cfg(test)]
mod tests {
    use contract::random::Random;
    use contract::{Moment, RequestId, WorkerId};
    use engine::sim::Profile;
    use router::{Candidate, Choice, Identity, Placed, Reason, RequestView, RouteQuery};

    use super::*;

    /// Always the last.
    #[derive(Debug)]
    struct Last;

    impl Policy for Last {
        fn name(&self) -> &'static str {
            "last"
        }

        fn choose(
            &mut self,
            _request: &RequestView<'_>,
            candidates: &mut [Candidate],
            _draws: &mut Random,
        ) -> Choice {
            Choice {
                index: candidates.len() - 1,
                reason: Reason::Drawn,
            }
        }
    }

    #[test]
    fn a_rival_decides_and_fills_the_engines_queue() {
        let rival = Contestant::Rival {
            name: "last",
            policy: || Box::new(Last),
        };
        let profile = Profile::named(engine::sim::DEFAULT_PROFILE).unwrap();
        // The configuration's own mode would let requests wait in the router.
        let config = RouterConfig::new(profile.block_size);
        assert!(config.mode.binds_late());
        let mut router = rival.router(config);
        for id in [0, 1] {
            router.join(profile.card(WorkerId(id), "worker")).unwrap();
        }
        for number in 0..profile.slots + 1 {
            let query = RouteQuery {
                request: RequestId::new("r"),
                prompt_tokens: 100,
                chain: &[],
                excluded: &[],
                identity: Identity::default(),
                priority: 0,
                deadline: None,
            };
            let placed = router.place(&query, Moment::ZERO).unwrap();
            assert!(
                matches!(placed, Placed::Now(claim) if claim.worker == WorkerId(1)),
                "request {number}"
            );
        }
        assert_eq!(router.decisions(1)[0].mode, rival.name());
    }
}
