#!/bin/sh
# Deploys a stage of the story by its name: round-robin, kv, kv+draft, kv+eagle3.
#
# Weights that are not on the share yet are loaded first. Run it by hand once for kv+draft and once for
# kv+eagle3 before a sweep: that is where the hours go.
set -eu
cd "$(dirname "$0")"
. ./deployment.sh

case $1 in
  round-robin) router=round-robin overlay=$ENGINE ;;
  kv) router=kv overlay=$ENGINE ;;
  kv+draft) router=kv overlay=$ENGINE-draft ;;
  kv+eagle3) router=kv overlay=$ENGINE-eagle3 ;;
  *)
    echo "no stage $1: round-robin, kv, kv+draft or kv+eagle3" >&2
    exit 1
    ;;
esac

# A Job cannot be changed, and this one has other weights in every stage.
k delete job homing-model-loader --ignore-not-found
# Not `k`: an overlay has objects in other namespaces too.
kubectl apply --kustomize "$OVERLAYS/$overlay"
# The sweep is the load. It asks for one model throughout, and Llama 3.3 has another name than 3.1.
k scale deployment/homing-loadgen --replicas=0
k set env deployment/homing-frontend "DYN_ROUTER_MODE=$router" HOMING_MODEL_NAME=llama-70b
k wait job/homing-model-loader --for=condition=complete --timeout="$PATIENCE"
restart_engines
