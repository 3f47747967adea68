//! Requests that the router has sent to a worker and that have not ended.
//!
//! The router's own accounting, exact at every moment, in contrast to the status that a worker
//! publishes when it gets around to it: a burst of requests between two reports would all
//! see the same idle worker. The two are never mixed.
//!
//! Blocks in use are in [`crate::active_blocks`], where sharing between requests is known;
//! here is only the part that cannot be shared, the last and incomplete block of a prompt.

/// Sums over the running requests on one worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    pub in_flight: u32,
    /// Prompt tokens to be computed by requests that have not shown their first token.
    pub pending_prefill_tokens: u64,
    /// Requests that have not shown their first token.
    pub pending_requests: u32,
    /// Requests whose prompt ends within a block.
    pub partial_blocks: u32,
}

/// One request's part of a [`Load`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Zero from the first token on.
    pub prefill_tokens: u32,
    pub partial_block: bool,
    /// Its first token has not come yet.
    pub pending: bool,
}

impl Load {
    pub fn add(&mut self, share: Share) {
        self.in_flight += 1;
        self.pending_prefill_tokens += u64::from(share.prefill_tokens);
        self.pending_requests += u32::from(share.pending);
        self.partial_blocks += u32::from(share.partial_block);
    }

    /// The request's prompt has been computed.
    pub fn first_token(&mut self, share: &mut Share) {
        self.pending_prefill_tokens -= u64::from(share.prefill_tokens);
        self.pending_requests -= u32::from(share.pending);
        share.prefill_tokens = 0;
        share.pending = false;
    }

    pub fn remove(&mut self, share: Share) {
        self.in_flight -= 1;
        self.pending_prefill_tokens -= u64::from(share.prefill_tokens);
        self.pending_requests -= u32::from(share.pending);
        self.partial_blocks -= u32::from(share.partial_block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_leaves_as_it_came() {
        let mut load = Load::default();
        let mut started = Share {
            prefill_tokens: 70,
            partial_block: true,
            pending: true,
        };
        let waiting = Share {
            prefill_tokens: 30,
            partial_block: false,
            pending: true,
        };
        load.add(started);
        load.add(waiting);
        assert_eq!(
            load,
            Load {
                in_flight: 2,
                pending_prefill_tokens: 100,
                pending_requests: 2,
                partial_blocks: 1
            }
        );
        load.first_token(&mut started);
        load.first_token(&mut started);
        assert_eq!(
            (load.pending_prefill_tokens, load.pending_requests),
            (30, 1)
        );
        load.remove(waiting);
        load.remove(started);
        assert_eq!(load, Load::default());
    }
}
