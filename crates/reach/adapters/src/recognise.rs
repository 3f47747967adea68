//! Which engine a server is, by what it says at `/metrics`.

use crate::figures::{About, Load};
use crate::kind::EngineKind;

const METRICS: &str = "/metrics";

/// An engine that was recognised.
#[derive(Clone, Debug, PartialEq)]
pub struct Recognised {
    pub kind: EngineKind,
    pub load: Load,
    pub about: About,
}

/// From the text of `/metrics`; `None` if no engine writes such.
pub fn recognise(metrics: &str) -> Option<Recognised> {
    EngineKind::ALL.into_iter().find_map(|kind| {
        let dialect = kind.dialect();
        let load = dialect.load.as_ref();
        let load = load.filter(|load| load.paths.contains(&METRICS))?;
        let about = dialect.about.as_ref();
        let about = about.filter(|about| about.paths.contains(&METRICS));
        Some(Recognised {
            kind,
            load: (load.read)(metrics)?,
            about: about.map_or_else(About::default, |about| (about.read)(metrics)),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vllm_is_recognised_and_a_stranger_is_not() {
        let text = "vllm:num_requests_running{engine=\"0\"} 3\n\
            vllm:num_requests_waiting{engine=\"0\"} 1\n\
            vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"900\"} 1.0\n";
        let engine = recognise(text).unwrap();
        assert_eq!(engine.kind, EngineKind::Vllm);
        assert_eq!((engine.load.running, engine.load.waiting), (3, 1));
        assert_eq!(engine.about.blocks, Some(900));
        assert_eq!(recognise("process_cpu_seconds_total 3\n"), None);
        assert_eq!(recognise(""), None);
    }
}
