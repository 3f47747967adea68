//! Servers that tests start: the genuine programs where there are any, and a stand-in for
//! Kubernetes, of which no test machine has a cluster. Nothing that ships uses this crate.

pub mod dynamo;
pub mod etcd;
pub mod kubernetes;
