//! What an EndpointSlice (`discovery.k8s.io/v1`) says of a pod.

use k8s_openapi::api::discovery::v1::Endpoint;

/// A Service may be told to publish pods that are not ready, and those that end are then called
/// ready too; so both are looked at.
pub fn is_ready(endpoint: &Endpoint) -> bool {
    let Some(conditions) = &endpoint.conditions else {
        return true;
    };
    conditions.ready != Some(false) && conditions.terminating != Some(true)
}
