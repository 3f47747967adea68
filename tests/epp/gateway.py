"""Configurations of a genuine Envoy whose endpoints are picked by `homing epp`.

Two styles of cluster are in use: ORIGINAL_DST goes where a header says, and override_host chooses among
endpoints that Envoy knows and retries down the list.
"""

DESTINATION = "x-gateway-destination-endpoint"


def _type(name):
    return f"type.googleapis.com/envoy.{name}"


def _address(address):
    host, port = address.rsplit(":", 1)
    return {"socket_address": {"address": host, "port_value": int(port)}}


def _assignment(name, addresses):
    endpoints = [{"endpoint": {"address": _address(address)}} for address in addresses]
    return {"cluster_name": name, "endpoints": [{"lb_endpoints": endpoints}]}


def _picker(address, tls, fail_open):
    cluster = {
        "name": "picker",
        "type": "STATIC",
        "connect_timeout": "5s",
        "load_assignment": _assignment("picker", [address]),
        "typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": _type("extensions.upstreams.http.v3.HttpProtocolOptions"),
                "explicit_http_config": {"http2_protocol_options": {}},
            }
        },
    }
    if fail_open:
        # Only of a picker that is known to be gone does Envoy know so before it has handed over a body.
        cluster["health_checks"] = [
            {
                "timeout": "2s",
                "interval": "0.5s",
                "no_traffic_interval": "0.5s",
                "unhealthy_threshold": 1,
                "healthy_threshold": 1,
                "grpc_health_check": {"service_name": "envoy.service.ext_proc.v3.ExternalProcessor"},
            }
        ]
        cluster["common_lb_config"] = {"healthy_panic_threshold": {"value": 0}}
    if tls:
        cluster["transport_socket"] = {
            "name": "envoy.transport_sockets.tls",
            "typed_config": {
                "@type": _type("extensions.transport_sockets.tls.v3.UpstreamTlsContext"),
                "common_tls_context": {"alpn_protocols": ["h2"]},
            },
        }
    return cluster


def original_dst(servers):
    return {
        "name": "pool",
        "type": "ORIGINAL_DST",
        "connect_timeout": "5s",
        "lb_policy": "CLUSTER_PROVIDED",
        "original_dst_lb_config": {"use_http_header": True, "http_header_name": DESTINATION},
    }


def override_host(servers):
    key = lambda name: {"key": "envoy.lb", "path": [{"key": name}]}
    policy = lambda name, config: {"policies": [{"typed_extension_config": {"name": name, "typed_config": config}}]}
    round_robin = {"@type": _type("extensions.load_balancing_policies.round_robin.v3.RoundRobin")}
    return {
        "name": "pool",
        "type": "STATIC",
        "connect_timeout": "5s",
        "load_assignment": _assignment("pool", servers),
        "load_balancing_policy": policy(
            "envoy.load_balancing_policies.override_host",
            {
                "@type": _type("extensions.load_balancing_policies.override_host.v3.OverrideHost"),
                "override_host_sources": [{"metadata": key(DESTINATION)}, {"header": DESTINATION}],
                "selected_host_key": key(f"{DESTINATION}-served"),
                "fallback_policy": policy("envoy.load_balancing_policies.round_robin", round_robin),
            },
        ),
    }


STYLES = {"original_dst": original_dst, "override_host": override_host}


def _subset(endpoints):
    """A filter before the picker's that says which endpoints may be used."""
    hint = {"x-gateway-destination-endpoint-subset": endpoints}
    return {
        "name": "envoy.filters.http.set_metadata",
        "typed_config": {
            "@type": _type("extensions.filters.http.set_metadata.v3.Config"),
            "metadata": [{"metadata_namespace": "envoy.lb.subset_hint", "value": hint}],
        },
    }


def _ext_proc(fail_open):
    return {
        "name": "envoy.filters.http.ext_proc",
        "typed_config": {
            "@type": _type("extensions.filters.http.ext_proc.v3.ExternalProcessor"),
            "grpc_service": {"envoy_grpc": {"cluster_name": "picker"}},
            "failure_mode_allow": fail_open,
            "message_timeout": "600s",
            "processing_mode": {
                "request_header_mode": "SEND",
                "response_header_mode": "SEND",
                "request_body_mode": "FULL_DUPLEX_STREAMED",
                "response_body_mode": "FULL_DUPLEX_STREAMED",
                "request_trailer_mode": "SEND",
                "response_trailer_mode": "SEND",
            },
            "metadata_options": {
                "forwarding_namespaces": {"untyped": ["envoy.lb", "envoy.lb.subset_hint"]},
                "receiving_namespaces": {"untyped": ["envoy.lb"]},
            },
        },
    }


def _listener(name, port, filters):
    route = {
        "match": {"prefix": "/"},
        "route": {
            "cluster": "pool",
            "timeout": "0s",
            "retry_policy": {"retry_on": "connect-failure,refused-stream,reset-before-request", "num_retries": 2},
        },
        "response_headers_to_add": [{"header": {"key": "x-upstream", "value": "%UPSTREAM_REMOTE_ADDRESS%"}}],
    }
    manager = {
        "@type": _type("extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"),
        "stat_prefix": name,
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [route]}]},
        "http_filters": [
            *filters,
            {"name": "envoy.filters.http.router", "typed_config": {"@type": _type("extensions.filters.http.router.v3.Router")}},
        ],
    }
    return {
        "name": name,
        "address": _address(f"127.0.0.1:{port}"),
        "filter_chains": [
            {"filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]}
        ],
    }


def configuration(port, picker, servers, style, tls=True, fail_open=False, subset=None, bare_port=None):
    """With `bare_port`, a second listener goes to the same servers without asking the picker."""
    filters = [] if subset is None else [_subset(subset)]
    listeners = [_listener("api", port, [*filters, _ext_proc(fail_open)])]
    if bare_port is not None:
        listeners.append(_listener("bare", bare_port, []))
    return {"static_resources": {"listeners": listeners, "clusters": [_picker(picker, tls, fail_open), STYLES[style](servers)]}}
