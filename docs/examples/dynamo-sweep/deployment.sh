# shellcheck shell=sh disable=SC2034
# Which deployment is measured: by default that of deploy/kubernetes/overlays/dynamo. Read by the other
# scripts; change it here.
NAMESPACE=${NAMESPACE:-homing}
DEPLOYMENT=${DEPLOYMENT:-llama-70b}
# Longest time until pods are ready: large models take minutes to load.
PATIENCE=${PATIENCE:-1800s}

k() { kubectl --namespace "$NAMESPACE" "$@"; }

# Waits until the operator has seen the last change and every pod of the deployment is ready.
# Asked twice with a pause, because for a moment after a change the old pods are still there.
wait_ready() {
  for _ in 1 2; do
    sleep 10
    k wait "dynamographdeployment/$DEPLOYMENT" --for=condition=Ready --timeout="$PATIENCE"
    k wait pod --selector "nvidia.com/dynamo-graph-deployment-name=$DEPLOYMENT" \
      --for=condition=Ready --timeout="$PATIENCE"
  done
}
