//! What the latencies mean and when they count, written once: the metrics page, the load generator's help and
//! every page that shows a figure take the words from here.

/// A latency and how it is measured.
#[derive(Clone, Copy, Debug)]
pub struct Definition {
    pub name: &'static str,
    pub meaning: &'static str,
}

/// The latencies of a request, in the order in which they are shown, and when they count.
pub static DEFINITIONS: [Definition; 5] = [
    Definition {
        name: "TTFT",
        meaning: "time to first token: from the start of sending a request to the first event \
                  with content; an event that only names the role has none",
    },
    Definition {
        name: "TPOT",
        meaning: "time per output token: from the first to the last event with content, over the \
                  tokens that came after the first of them; one value a request",
    },
    Definition {
        name: "ITL",
        meaning: "inter-token latency: the gap between two events with content over the tokens \
                  of the second; one value a token",
    },
    Definition {
        name: "E2E",
        meaning: "end-to-end latency: from the start of sending a request to its last event \
                  with content",
    },
    Definition {
        name: "The last minute",
        meaning: "its figures count things when they happen: a TTFT at the first \
                  token, tokens as they arrive, everything else when the request ends; prompt \
                  and cached tokens, ITL and exact token counts come with the events if the \
                  server counts in every event, and otherwise at the end. A request that fails \
                  has no TPOT and no E2E; if its first token had come, its TTFT counts",
    },
];
