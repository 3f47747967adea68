#!/bin/sh
# Prints the stage that runs: the mode that the frontend routes in, and what drafts in the engines' pods.
set -eu
cd "$(dirname "$0")"
. ./deployment.sh
router=$(curl --silent --show-error --fail "$TARGET/router" |
  sed -n 's/.*"mode" *: *"\([a-z-]*\)".*/\1/p')
drafts=$(k get pod homing-engine-0 --output 'jsonpath={.metadata.annotations.homing/speculation}')
echo "$router${drafts:++$drafts}"
