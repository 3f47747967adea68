#!/bin/sh
# Prints the mode that the running frontend was started with, not the one that was asked for.
set -eu
cd "$(dirname "$0")"
. ./deployment.sh
pod=$(k get pod --output name --field-selector status.phase=Running --selector \
  "nvidia.com/dynamo-graph-deployment-name=$DEPLOYMENT,nvidia.com/dynamo-component-type=frontend" |
  head -n 1)
k exec "$pod" -- printenv DYN_ROUTER_MODE
