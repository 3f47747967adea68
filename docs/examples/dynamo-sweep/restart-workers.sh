#!/bin/sh
# Empties every KV cache by replacing the workers' pods, and the frontend's with them, whose
# index would otherwise describe caches that are gone. The operator makes new ones.
set -eu
cd "$(dirname "$0")"
. ./deployment.sh
k delete pod --wait=true --selector "nvidia.com/dynamo-graph-deployment-name=$DEPLOYMENT"
wait_ready
