//! The state over a WebSocket: at once, then every second and at each change of phase.
//!
//! Nothing is queued for a reader. The next state is made only when the last one has left, so
//! one that reads slowly skips to the newest, and one that does not read at all is let go.

use std::time::Duration;

use axum::extract::ws::{Message, WebSocket};
use contract::Access;
use futures_util::stream::SplitStream;
use futures_util::{SinkExt as _, StreamExt as _};
use http::HeaderMap;
use http::header::SEC_WEBSOCKET_PROTOCOL;
use loadgen::snapshot::Snapshot;
use tokio::sync::watch;
use tokio::time::{Interval, MissedTickBehavior, interval, timeout};

use crate::Console;
use crate::load::Load;

/// How often the state is sent where no load generator sets the pace.
const PACE: Duration = Duration::from_secs(1);

/// How long a reader may take for one state before it counts as gone.
const PATIENCE: Duration = Duration::from_secs(120);

/// What a page and the console speak over the socket.
pub(crate) const PROTOCOL: &str = "homing";

/// What the subprotocol begins with that is no protocol but the control token.
const TOKEN_PREFIX: &str = "token.";

/// Whether a viewer may change things: it shows the token as a header, as programs can, or
/// among the subprotocols, as browsers can.
pub(crate) fn is_granted(access: &Access, headers: &HeaderMap) -> bool {
    let header = |name: &str| headers.get(name).map(|value| value.as_bytes());
    if access.check(header).is_ok() {
        return true;
    }
    let offered = headers.get_all(SEC_WEBSOCKET_PROTOCOL).into_iter();
    let offered = offered
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(','));
    let mut tokens = offered.filter_map(|protocol| protocol.trim().strip_prefix(TOKEN_PREFIX));
    access.needs_token()
        && tokens.any(|token| {
            let bearer = |token: &[u8]| [b"Bearer ", token].concat();
            let forms = [bearer(token.as_bytes()), bearer(&percent_decoded(token))];
            forms.iter().any(|form| {
                let shown = |name: &str| (name == "authorization").then_some(form.as_slice());
                access.check(shown).is_ok()
            })
        })
}

/// `%` with two digits is the byte of that number; anything else is itself.
fn percent_decoded(text: &str) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match (first, byte) {
            (b'%', Some(byte)) => {
                decoded.push(byte);
                rest = &after[2..];
            }
            _ => {
                decoded.push(first);
                rest = after;
            }
        }
    }
    decoded
}

/// Serves one viewer until it leaves or the console closes.
pub(crate) async fn run(console: Console, socket: WebSocket, granted: bool) {
    let closing = console.inner.closing.clone();
    let (mut sink, mut incoming) = socket.split();
    let mut beat = NextUpdate::new(&console);
    let sending = async {
        loop {
            let state = console.state(beat.newest(), granted);
            let Ok(text) = serde_json::to_string(&state) else {
                return;
            };
            match timeout(PATIENCE, sink.send(Message::text(text))).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) | Err(_) => return,
            }
            tokio::select! {
                () = beat.next() => {}
                () = gone(&mut incoming) => return,
            }
        }
    };
    closing.run_until_cancelled(sending).await;
    // Told why, if it still listens.
    let _ = timeout(PACE, sink.send(Message::Close(None))).await;
}

/// Returns when the viewer has left. Its messages are read, because reading answers pings, and
/// ignored.
async fn gone(incoming: &mut SplitStream<WebSocket>) {
    while let Some(Ok(message)) = incoming.next().await {
        if matches!(message, Message::Close(_)) {
            return;
        }
    }
}

/// What says that it is time for the next state.
pub(crate) enum NextUpdate {
    /// The load generator's own second, and its changes of phase.
    Load(watch::Receiver<Snapshot>),
    /// Nothing in this process sets the pace.
    Clock(Interval, Load),
}

impl NextUpdate {
    pub(crate) fn new(console: &Console) -> Self {
        match &console.inner.load {
            Load::Here(load) => Self::Load(load.snapshots()),
            elsewhere @ (Load::Elsewhere(_) | Load::None) => {
                let mut ticks = interval(PACE);
                ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
                // The first is over at once, and the first state is sent anyway.
                ticks.reset();
                Self::Clock(ticks, elsewhere.clone())
            }
        }
    }

    pub(crate) fn newest(&mut self) -> Option<Snapshot> {
        match self {
            Self::Load(snapshots) => Some(snapshots.borrow_and_update().clone()),
            Self::Clock(_, load) => load.snapshot(),
        }
    }

    pub(crate) async fn next(&mut self) {
        match self {
            Self::Load(snapshots) => {
                if snapshots.changed().await.is_err() {
                    // No load generator any more: the server shuts down.
                    std::future::pending::<()>().await;
                }
            }
            Self::Clock(ticks, _) => {
                ticks.tick().await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(token: &str, offered: &str, granted: bool) {
        let access = Access::Token(token.to_owned());
        let mut headers = HeaderMap::new();
        headers.insert(SEC_WEBSOCKET_PROTOCOL, offered.parse().unwrap());
        assert_eq!(is_granted(&access, &headers), granted, "{offered}");
    }

    #[test]
    fn a_token_among_the_subprotocols_counts() {
        check("secret", "homing, token.secret", true);
        check("secret", "token.secret,homing", true);
        check("secret", "homing", false);
        check("secret", "homing, secret", false);
        check("secret", "homing, token.", false);
        check("secret", "homing, token.secre", false);
        check("a b=", "homing, token.a%20b%3D", true);
        check("50%", "homing, token.50%", true);
        check("50%ab", "homing, token.50%ab", true);
        check("50%ab", "homing, token.50%25ab", true);
    }

    #[test]
    fn another_sites_page_stays_out_whatever_it_offers() {
        let mut headers = HeaderMap::new();
        headers.insert("host", "127.0.0.1:3000".parse().unwrap());
        assert!(is_granted(&Access::Open, &headers));
        headers.insert("origin", "http://example.org".parse().unwrap());
        headers.insert(SEC_WEBSOCKET_PROTOCOL, "homing, token.x".parse().unwrap());
        assert!(!is_granted(&Access::Open, &headers));
    }
}
