#!/bin/sh
# Prints what the cluster should know of this repository: for Prometheus the rules as PrometheusRules,
# for Grafana the dashboards as a ConfigMap that its sidecar picks up, for the console the baseline
# that live figures are compared with.
#
#   deploy/kubernetes/observability.sh [BASELINE [LEVEL]] | kubectl apply --server-side -f -
#
# BASELINE is a sweep's baseline.json; by default the simulated one of docs/results/published, and
# console and dashboard then say that it is simulated. LEVEL is the number of conversations of the
# dashboard's reference lines; without it they follow the load generator's.
#
# Server-side, because the dashboards are larger than the note that a plain apply leaves on an
# object. Printed and not kept: dashboards/ is the only copy. Needs Python.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
baseline=$(realpath "${1:-$here/../../docs/results/published/baseline.json}")
cd "$here/../../dashboards"
board=$(python3 "$here/reference_lines.py" grafana/gtc-demo.json "$baseline" ${2:+"$2"})

head_of() {
    printf '%s\n' --- "apiVersion: $1" "kind: $2" metadata: "  name: $3" "  namespace: $4" '  labels:'
}

for rules in recording alerts; do
    head_of monitoring.coreos.com/v1 PrometheusRule "homing-$rules" monitoring
    printf '%s\n' '    release: kube-prometheus-stack' spec:
    sed 's/^\(.\)/  \1/' "prometheus/rules/$rules.yml"
done

head_of v1 ConfigMap homing-dashboards monitoring
printf '%s\n' '    grafana_dashboard: "1"' data:
printf '  gtc-demo.json: |\n'
printf '%s\n' "$board" | sed 's/^\(.\)/    \1/'
printf '  homing-router.json: |\n'
sed 's/^\(.\)/    \1/' grafana/homing-router.json

head_of v1 ConfigMap homing-baseline homing
printf '%s\n' '    app.kubernetes.io/name: homing' data:
printf '  baseline.json: |\n'
sed 's/^\(.\)/    \1/' "$baseline"
