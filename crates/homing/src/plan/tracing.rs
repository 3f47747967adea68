//! Options of what is recorded of requests, resolved.

use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use otlp::{Collector, Protocol, Resource};
use percent_encoding::percent_decode_str;
use spans::SampleRatio;

use crate::args::{OtlpProtocolChoice, TracingArgs};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What is recorded of requests.
#[derive(Clone, Debug)]
pub(crate) struct TracingPlan {
    pub(crate) spans: Option<SpansPlan>,
    pub(crate) requests: Option<RequestTracePlan>,
}

/// A file to which a line is appended for each answered request.
#[derive(Clone, Debug)]
pub(crate) struct RequestTracePlan {
    pub(crate) path: PathBuf,
    pub(crate) most_bytes: u64,
}

/// Where spans go, and of which requests.
#[derive(Clone, Debug)]
pub(crate) struct SpansPlan {
    pub(crate) collector: Collector,
    pub(crate) ratio: SampleRatio,
    pub(crate) resource: Resource,
}

impl TracingArgs {
    /// `instance` tells this process from others of the service.
    pub(crate) fn resolve(&self, instance: u64) -> anyhow::Result<TracingPlan> {
        let requests = self.request_trace.clone().map(|path| RequestTracePlan {
            path,
            most_bytes: self.request_trace_limit << 20,
        });
        Ok(TracingPlan {
            spans: self.spans(instance)?,
            requests,
        })
    }

    /// `None` if no collector is named.
    fn spans(&self, instance: u64) -> anyhow::Result<Option<SpansPlan>> {
        let Some(endpoint) = self.otlp_endpoint.as_deref().filter(|url| !url.is_empty()) else {
            return Ok(None);
        };
        let protocol = match self.otlp_protocol {
            OtlpProtocolChoice::Grpc => Protocol::Grpc,
            OtlpProtocolChoice::HttpProtobuf => Protocol::Http,
        };
        let headers = pairs(&self.otlp_headers).context("--otlp-headers")?;
        let collector = Collector::new(protocol, endpoint, &headers).context("--otlp-endpoint")?;
        let mut attributes = vec![
            ("service.version".to_owned(), VERSION.to_owned()),
            ("service.instance.id".to_owned(), format!("{instance:016x}")),
            ("telemetry.sdk.name".to_owned(), "homing".to_owned()),
            ("telemetry.sdk.language".to_owned(), "rust".to_owned()),
            ("telemetry.sdk.version".to_owned(), VERSION.to_owned()),
        ];
        let given = pairs(&self.trace_resource).context("--trace-resource")?;
        attributes.retain(|(name, _)| !given.iter().any(|(other, _)| other == name));
        attributes.extend(given.into_iter().filter(|(name, _)| name != "service.name"));
        attributes.push(("service.name".to_owned(), self.trace_service_name.clone()));
        Ok(Some(SpansPlan {
            collector,
            ratio: self.trace_sample,
            resource: Resource {
                attributes,
                version: VERSION,
            },
        }))
    }
}

/// `NAME=VALUE`, with values as in URLs.
fn pairs(texts: &[String]) -> anyhow::Result<Vec<(String, String)>> {
    let written = texts.iter().filter(|text| !text.trim().is_empty());
    written
        .map(|text| {
            // Not the value: it may be a key.
            let (name, value) = text.split_once('=').context("expected NAME=VALUE")?;
            let (name, value) = (name.trim(), percent_decode_str(value.trim()));
            ensure!(!name.is_empty(), "expected NAME=VALUE");
            let value = value.decode_utf8().context("not UTF-8")?;
            Ok((name.to_owned(), value.into_owned()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(endpoint: Option<&str>) -> TracingArgs {
        TracingArgs {
            otlp_endpoint: endpoint.map(str::to_owned),
            otlp_protocol: OtlpProtocolChoice::Grpc,
            otlp_headers: Vec::new(),
            trace_sample: SampleRatio::ALL,
            trace_service_name: "router".to_owned(),
            trace_resource: Vec::new(),
            request_trace: None,
            request_trace_limit: 1,
        }
    }

    #[test]
    fn nothing_is_traced_unless_a_collector_is_named() {
        assert!(args(None).spans(1).unwrap().is_none());
        assert!(args(Some("")).spans(1).unwrap().is_none());
        assert!(args(Some("http://[::1]:4317/")).spans(1).unwrap().is_some());
        for wrong in ["collector:4317", "ftp://host", "http://", "http://host?x=1"] {
            let error = args(Some(wrong)).spans(1).unwrap_err();
            assert!(
                format!("{error:#}").contains("--otlp-endpoint"),
                "{error:#}"
            );
        }
    }

    #[test]
    fn attributes_that_are_given_replace_ours_except_for_the_name() {
        let mut args = args(Some("http://collector:4317"));
        args.trace_resource = [
            "service.version=mine",
            "zone=a%2Cb",
            "service.name=other",
            "",
        ]
        .map(str::to_owned)
        .to_vec();
        let plan = args.spans(1).unwrap().unwrap();
        let find = |name: &str| {
            let all = plan.resource.attributes.iter();
            let found: Vec<&str> = all
                .filter(|(known, _)| known == name)
                .map(|(_, value)| value.as_str())
                .collect();
            found.join("|")
        };
        assert_eq!(find("service.name"), "router");
        assert_eq!(find("service.version"), "mine");
        assert_eq!(find("zone"), "a,b");
        args.trace_resource = vec!["zone".to_owned()];
        assert!(args.spans(1).is_err());
    }

    #[test]
    fn a_header_that_is_wrong_is_refused_without_its_value() {
        let mut args = args(Some("http://collector:4317"));
        for wrong in ["secret", "na me=secret", "name=sec%0Aret"] {
            args.otlp_headers = vec![wrong.to_owned()];
            let error = format!("{:#}", args.spans(1).unwrap_err());
            assert!(!error.contains("secret"), "{error}");
        }
        args.otlp_headers = vec!["Authorization=Basic%20abc".to_owned()];
        assert!(args.spans(1).is_ok());
    }
}
