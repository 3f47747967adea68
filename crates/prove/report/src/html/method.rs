//! How the figures are made, in short, and what they do not show.

use super::Page;
use super::text::{escape, short};
use stats::intervals::NEEDED_RUNS;

const TERMS: [(&str, &str); 10] = [
    (
        "Request and window",
        "A request belongs to the window in which it was sent. What it does later counts, so that \
         slow requests are not lost at the edge.",
    ),
    (
        "TTFT, TPOT, ITL, E2E",
        "Time to the first token; time per token after it, the mean of one answer; gaps between \
         tokens, all answers together; time to the end of the answer. As the client feels them.",
    ),
    (
        "Percentiles",
        "Of a run: nearest ranks over all requests of its window. Failed requests have no latency; \
         adjusted percentiles count them as infinitely slow, and are a dash where such a one would \
         be the percentile of a run. Of a cell: the median of its runs' percentiles, as every other \
         figure is the median of its runs'.",
    ),
    (
        "Intervals",
        "From what differs between runs, each of which has a seed of its own: from the lowest run \
         to the highest, or closer where there are nine or more (order statistics of the median). \
         Requests of a run share its queues, so a run is one sample. Fewer than six runs have no \
         interval and no verdict. In at least 95 of 100 sweeps an interval holds the figure that \
         very many runs would give.",
    ),
    (
        "Differences",
        "In pairs: the conversations of a repeat are the same in every mode, so differences are \
         taken run by run, and theirs is the median that is shown. Each interval is about its own difference; verdicts are about all of the report \
         together (t test of the runs' ratios, Holm's rule): where nothing differs, at most one report in twenty calls \
         anything better or worse.",
    ),
    (
        "TOPS and RPS",
        "Output tokens a second by the usage that the server reports, spread evenly from an \
         answer's first token to its end; answers a second that end in the window.",
    ),
    (
        "Goodput",
        "Requests a second that were answered and keep every objective's time by themselves.",
    ),
    (
        "Hit",
        "Cached tokens over prompt tokens, by the answers' usage; beside it, as the server counts.",
    ),
    (
        "Spread, in flight, queue",
        "Requests that were placed on a worker and had not ended, looked at each second; spread is \
         the busiest worker less the idlest. Queue time is what a request waited in the router \
         and in the engine.",
    ),
    (
        "Numbers",
        "Three digits that count: two after the point below 10, one below 100, none above; \
         percentages have one. A dash is a figure that does not exist.",
    ),
];

pub(super) fn section(page: Page<'_>) -> String {
    let terms = TERMS
        .map(|(term, meaning)| format!("<dt>{}</dt><dd>{}</dd>\n", escape(term), escape(meaning)));
    let limits = not_shown(page);
    let limits = limits
        .iter()
        .map(|limit| format!("<li>{}</li>\n", escape(limit)));
    format!(
        "<section id=\"method\">\n<h2>Method</h2>\n<dl>\n{}</dl>\n<h3>What it does not show</h3>\n\
         <ul>\n{}</ul>\n</section>\n",
        terms.concat(),
        limits.collect::<String>()
    )
}

fn not_shown(page: Page<'_>) -> Vec<String> {
    let about = &page.summary.about;
    let mut limits = Vec::new();
    if about.simulated {
        limits.push(
            "How fast real hardware is. Timing follows a profile; what the profile leaves out \
             (networks, kernels, noise of neighbours) is not in the figures."
                .to_owned(),
        );
    }
    limits.push(format!(
        "Other loads. All of it is the workload {} with seed {}; other conversations, other \
         lengths and other numbers of workers may end differently.",
        about.workload, about.seed
    ));
    limits.push(
        "Levels between those that were run. The highest concurrency is the highest of these, \
         not the highest there is."
            .to_owned(),
    );
    if page
        .summary
        .cells
        .iter()
        .all(|cell| cell.intervals.is_empty())
    {
        limits.push(format!(
            "What differs from one run to the next. There are {} run(s) of {} s for each mode and \
             level, and {NEEDED_RUNS} are needed to say.",
            about.repeats,
            short(about.window_s)
        ));
    }
    limits.push("Quality. Nobody looked at what the answers say.".to_owned());
    limits
}
