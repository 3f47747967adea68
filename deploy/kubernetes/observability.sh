#!/bin/sh
# Prints what the cluster's Prometheus and Grafana should know of this repository: the rules as
# PrometheusRules, the dashboards as a ConfigMap that Grafana's sidecar picks up.
#
#   deploy/kubernetes/observability.sh | kubectl apply --server-side -f -
#
# Server-side, because the dashboards are larger than the note that a plain apply leaves on an
# object. Printed and not kept: dashboards/ is the only copy.
set -eu
cd "$(dirname "$0")/../../dashboards"

head_of() {
    printf '%s\n' --- "apiVersion: $1" "kind: $2" metadata: "  name: $3" '  namespace: monitoring' '  labels:'
}

for rules in recording alerts; do
    head_of monitoring.coreos.com/v1 PrometheusRule "homing-$rules"
    printf '%s\n' '    release: kube-prometheus-stack' spec:
    sed 's/^\(.\)/  \1/' "prometheus/rules/$rules.yml"
done

head_of v1 ConfigMap homing-dashboards
printf '%s\n' '    grafana_dashboard: "1"' data:
for board in gtc-demo homing-router; do
    printf '  %s.json: |\n' "$board"
    sed 's/^\(.\)/    \1/' "grafana/$board.json"
done
