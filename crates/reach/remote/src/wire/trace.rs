//! A request's trace context in the metadata of its call, under the names that HTTP has.

use contract::TraceContext;
use contract::trace::{TRACEPARENT, TRACESTATE};
use tonic::metadata::MetadataMap;

pub fn write_trace(trace: &TraceContext, metadata: &mut MetadataMap) {
    if let Ok(parent) = trace.parent().parse() {
        metadata.insert(TRACEPARENT, parent);
    }
    if let Some(Ok(state)) = trace.state().map(str::parse) {
        metadata.insert(TRACESTATE, state);
    }
}

/// `None` if there is none that makes sense.
pub fn read_trace(metadata: &MetadataMap) -> Option<TraceContext> {
    let parent = metadata.get(TRACEPARENT)?;
    let context: TraceContext = parent.to_str().ok()?.parse().ok()?;
    let states = metadata.get_all(TRACESTATE).iter();
    Some(context.with_state(states.map(|state| state.as_encoded_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_survives_the_call() {
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let sent: TraceContext = parent.parse().unwrap();
        for sent in [sent.clone(), sent.with_state([&b"a=1,b=2"[..]].into_iter())] {
            let mut metadata = MetadataMap::new();
            write_trace(&sent, &mut metadata);
            assert_eq!(read_trace(&metadata), Some(sent));
        }
        let mut metadata = MetadataMap::new();
        assert_eq!(read_trace(&metadata), None);
        metadata.insert("traceparent", "nonsense".parse().unwrap());
        assert_eq!(read_trace(&metadata), None);
    }
}
