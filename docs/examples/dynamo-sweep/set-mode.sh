#!/bin/sh
# Brings a routing mode into force: sets DYN_ROUTER_MODE on the frontend of the
# DynamoGraphDeployment, restarts the workers so that no cache outlives the change, and waits
# until everything is ready. For API version v1beta1, whose components are a list; the comment
# below has v1alpha1.
set -eu
cd "$(dirname "$0")"
. ./deployment.sh
mode=$1

# Position of the frontend among the components, and of the variable in its environment.
at=$(k get dynamographdeployment "$DEPLOYMENT" --output json |
  jq --raw-output '.spec.components | map(.type == "frontend") | index(true)')
env=/spec/components/$at/podTemplate/spec/containers/0/env
index=$(k get dynamographdeployment "$DEPLOYMENT" --output json |
  jq --raw-output ".spec.components[$at].podTemplate.spec.containers[0].env
                   | map(.name == \"DYN_ROUTER_MODE\") | index(true)")
k patch dynamographdeployment "$DEPLOYMENT" --type json --patch \
  "[{\"op\": \"replace\", \"path\": \"$env/$index/value\", \"value\": \"$mode\"}]"
# v1alpha1 (Dynamo 0.9) has a map of services and needs no position:
#   k patch dynamographdeployment "$DEPLOYMENT" --type merge --patch \
#     "{\"spec\": {\"services\": {\"Frontend\": {\"envs\": [{\"name\": \"DYN_ROUTER_MODE\", \"value\": \"$mode\"}]}}}}"

./restart-workers.sh
