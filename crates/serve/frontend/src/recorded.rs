//! What the request trace says of a prompt: lengths, times and the hashes of its blocks. None of its
//! words, and no name that a client gave to a session.

use contract::{BlockFormat, BlockHash, Clock, HashSeed, LocalHash, Moment, RequestId, TokenChunk};
use contract::{ModelName, TokenId};
use request_trace::{Line, Recorder, Replay, Request};
use router::Identity;

use crate::dispatch::Dispatch;

/// A prompt whose answer begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prompt<'a> {
    pub(crate) request: &'a RequestId,
    pub(crate) tokens: &'a [TokenId],
    /// Of its full blocks, at least.
    pub(crate) chain: &'a [BlockHash],
    pub(crate) seed: HashSeed,
    pub(crate) identity: Identity,
    pub(crate) arrived: Moment,
}

/// A line of the request trace in the making. Written when dropped, once its answer has begun;
/// nothing where no trace is written.
#[derive(Debug, Default)]
pub(crate) struct Recorded(Option<Box<Answered>>);

#[derive(Debug)]
struct Answered {
    recorder: Recorder,
    clock: Clock,
    session: String,
    request: Request,
    arrived: Moment,
    first: Option<Moment>,
    last: Moment,
    tokens: u32,
    cached: Option<u32>,
}

impl Recorded {
    pub(crate) fn begin(dispatch: &Dispatch, prompt: Prompt<'_>) -> Self {
        if !dispatch.recorder.is_on() || prompt.tokens.is_empty() {
            return Self::default();
        }
        let id = uuid::Uuid::new_v4().simple().to_string();
        Self(Some(Box::new(Answered {
            recorder: dispatch.recorder.clone(),
            clock: dispatch.clock,
            session: session(prompt.identity, &id),
            request: described(id, dispatch.metrics.model(), dispatch.limits.blocks, prompt),
            arrived: prompt.arrived,
            first: None,
            last: prompt.arrived,
            tokens: 0,
            cached: None,
        })))
    }

    /// Some of the answer has come.
    pub(crate) fn chunk(&mut self, chunk: &TokenChunk, now: Moment) {
        let Some(answered) = &mut self.0 else { return };
        answered.last = now;
        answered.tokens = answered.tokens.saturating_add(chunk.count());
        if let Some(started) = &chunk.started {
            answered.cached = Some(started.cached_tokens);
        }
        // When the tokens of a whole answer came is not known.
        if chunk.count() > 0 && !chunk.is_whole_answer() {
            answered.first.get_or_insert(now);
        }
    }
}

impl Drop for Answered {
    fn drop(&mut self) {
        if self.tokens == 0 {
            return;
        }
        let milliseconds = |time: std::time::Duration| time.as_secs_f64() * 1e3;
        let request = &mut self.request;
        request.output_tokens = Some(self.tokens);
        request.request_received_ms = Some(unix_ms(self.clock, self.arrived));
        request.total_time_ms = Some(milliseconds(self.last - self.arrived));
        request.ttft_ms = self.first.map(|first| milliseconds(first - self.arrived));
        let following = f64::from(self.tokens - 1);
        let decode = self.first.map(|first| milliseconds(self.last - first));
        request.avg_itl_ms = decode
            .filter(|_| following > 0.0)
            .map(|all| all / following);
        request.cached_tokens = self.cached.map(u64::from);
        let length = request.input_tokens.unwrap_or(0) as f64;
        request.kv_hit_rate = self.cached.map(|cached| f64::from(cached) / length);
        let session = std::mem::take(&mut self.session);
        let line = Line::request_end(
            unix_ms(self.clock, self.last),
            session,
            std::mem::take(request),
        );
        self.recorder.record(line);
    }
}

fn unix_ms(clock: Clock, moment: Moment) -> u64 {
    u64::try_from(clock.unix(moment).as_millis()).unwrap_or(u64::MAX)
}

/// A session's name, which is not the one that its client gave. Readers expect one of every request
/// or of none, so a request without a session is one by itself.
fn session(identity: Identity, id: &str) -> String {
    match identity.session {
        0 => id.to_owned(),
        session => format!("{:016x}-{session:016x}", identity.tenant),
    }
}

fn described(id: String, model: &ModelName, blocks: BlockFormat, prompt: Prompt<'_>) -> Request {
    Request {
        request_id: id,
        x_request_id: Some(prompt.request.as_str().to_owned()),
        model: Some(model.as_str().to_owned()),
        input_tokens: Some(prompt.tokens.len() as u64),
        replay: Some(Replay {
            trace_block_size: blocks.size as usize,
            input_length: prompt.tokens.len(),
            input_sequence_hashes: hashes(blocks.size as usize, prompt),
        }),
        ..Request::default()
    }
}

/// A hash of each block, also of the last one, which may be short.
fn hashes(size: usize, prompt: Prompt<'_>) -> Vec<u64> {
    let full = (prompt.tokens.len() / size).min(prompt.chain.len());
    let chain = &prompt.chain[..full];
    let mut hashes: Vec<u64> = chain.iter().map(|hash| hash.0).collect();
    let tail = &prompt.tokens[full * size..];
    if !tail.is_empty() {
        let local = LocalHash::of(tail, prompt.seed);
        hashes.push(BlockHash::after(chain.last().copied(), local).0);
    }
    hashes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_has_a_hash_and_the_last_may_be_short() {
        let request = RequestId::new("r");
        let tokens: Vec<TokenId> = (0..40).collect();
        let format = BlockFormat::new(16);
        let prompt = |length: usize, chain| Prompt {
            request: &request,
            tokens: &tokens[..length],
            chain,
            seed: HashSeed::BASE,
            identity: Identity::default(),
            arrived: Moment::ZERO,
        };
        // Of the prompt and of what has been answered since.
        let chain = format.chain(&tokens, HashSeed::BASE);
        for (length, blocks) in [(1, 1), (15, 1), (16, 1), (17, 2), (32, 2), (33, 3)] {
            assert_eq!(hashes(16, prompt(length, &chain)).len(), blocks, "{length}");
        }
        let [long, short] = [40, 33].map(|length| hashes(16, prompt(length, &chain)));
        assert_eq!(long[..2], short[..2]);
        assert_ne!(long[2], short[2]);
    }

    #[test]
    fn a_clients_name_of_a_session_is_not_told() {
        let identity = Identity {
            tenant: 1,
            session: 0xab,
            ..Identity::default()
        };
        assert_eq!(session(identity, "id"), "0000000000000001-00000000000000ab");
        assert_eq!(session(Identity::default(), "id"), "id");
    }
}
