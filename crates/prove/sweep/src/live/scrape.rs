//! What a server counts about itself, in Prometheus' text format.
//!
//! The names are Dynamo's, which this program emits too, so a Dynamo frontend is understood
//! as it is. What a server does not count is not known, and nothing else.

/// Totals since the server started, summed over labels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub prompt_tokens: Option<u64>,
    pub cached_tokens: Option<u64>,
    pub drafts: Option<u64>,
    pub drafted_tokens: Option<u64>,
    pub accepted_tokens: Option<u64>,
    /// Not a total: sequences that one worker runs at once.
    pub slots: Option<u32>,
}

impl Counters {
    /// From the text of `/metrics`.
    pub fn parse(text: &str) -> Self {
        let total = |name: &str| sum(text, name).map(|value| value as u64);
        Self {
            prompt_tokens: total("dynamo_frontend_input_sequence_tokens_sum"),
            cached_tokens: total("dynamo_frontend_cached_tokens_sum"),
            drafts: total("homing_speculation_drafts_total"),
            drafted_tokens: total("homing_speculation_drafted_tokens_total"),
            accepted_tokens: total("homing_speculation_accepted_tokens_total"),
            slots: samples(text, "dynamo_frontend_model_max_num_seqs")
                .next()
                .map(|value| value as u32),
        }
    }

    /// What was added since. A server that has not counted yet began at 0.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let less =
            |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then.unwrap_or(0)));
        Self {
            prompt_tokens: less(self.prompt_tokens, before.prompt_tokens),
            cached_tokens: less(self.cached_tokens, before.cached_tokens),
            drafts: less(self.drafts, before.drafts),
            drafted_tokens: less(self.drafted_tokens, before.drafted_tokens),
            accepted_tokens: less(self.accepted_tokens, before.accepted_tokens),
            slots: self.slots,
        }
    }
}

fn sum(text: &str, name: &str) -> Option<f64> {
    samples(text, name).reduce(|sum, more| sum + more)
}

/// The values of a name, whatever its labels. Labels may hold spaces, so a value is what comes
/// after their end.
fn samples(text: &str, name: &str) -> impl Iterator<Item = f64> {
    text.lines().filter_map(move |line| {
        let rest = line.strip_prefix(name)?;
        let value = match rest.strip_prefix('{') {
            Some(labels) => &labels[labels.rfind('}')? + 1..],
            None => rest.strip_prefix(' ')?,
        };
        value.split_whitespace().next()?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"# HELP dynamo_frontend_cached_tokens Prompt tokens.
# TYPE dynamo_frontend_cached_tokens histogram
dynamo_frontend_cached_tokens_bucket{model="a } b",le="0"} 3
dynamo_frontend_cached_tokens_sum{model="a } b"} 1500
dynamo_frontend_cached_tokens_sum{model="c"} 500.0
dynamo_frontend_cached_tokens_summary 7
dynamo_frontend_model_max_num_seqs{model="c"} 64
homing_speculation_drafts_total 12 1700000000
"#;

    #[test]
    fn values_are_summed_over_labels() {
        let counters = Counters::parse(TEXT);
        let expected = Counters {
            cached_tokens: Some(2000),
            drafts: Some(12),
            slots: Some(64),
            ..Counters::default()
        };
        assert_eq!(counters, expected);
    }

    #[test]
    fn what_began_later_began_at_nothing() {
        let now = Counters::parse(TEXT);
        let before = Counters {
            cached_tokens: Some(1200),
            prompt_tokens: Some(9),
            ..Counters::default()
        };
        let since = now.since(&before);
        let told = (since.cached_tokens, since.drafts, since.prompt_tokens);
        assert_eq!(told, (Some(800), Some(12), None));
    }
}
