# shellcheck shell=sh disable=SC2034
# Which deployment is measured. Read by the other scripts; change it here.
NAMESPACE=${NAMESPACE:-homing}
# vllm or trtllm: the overlays ENGINE, ENGINE-draft and ENGINE-eagle3 are the stages.
ENGINE=${ENGINE:-vllm}
# The folder that has them; with overlays of your own names of hosts and shares, your folder.
OVERLAYS=${OVERLAYS:-../../../deploy/kubernetes/overlays}
# The frontend, as plan.toml has it.
TARGET=${TARGET:-http://127.0.0.1:8000}
# Longest time for one step. A sweep waits half an hour for a command, so load weights beforehand.
PATIENCE=${PATIENCE:-1500s}

k() { kubectl --namespace "$NAMESPACE" "$@"; }

# Replaces all engines at once: loading 70 GB one after the other would take three times as long. Their
# caches go with them.
restart_engines() {
  k delete pod --wait=true --selector app.kubernetes.io/component=engine
  k rollout status statefulset/homing-engine --timeout="$PATIENCE"
  k rollout status deployment/homing-frontend --timeout="$PATIENCE"
}
