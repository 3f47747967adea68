//! What an EndpointSlice (`discovery.k8s.io/v1`) says of a pod.

use k8s_openapi::api::discovery::v1::Endpoint;

/// A Service can be configured to publish pods that are not ready; terminating pods are then
/// marked ready too, so both conditions are checked.
pub fn is_ready(endpoint: &Endpoint) -> bool {
    let Some(conditions) = &endpoint.conditions else {
        return true;
    };
    conditions.ready != Some(false) && conditions.terminating != Some(true)
}
