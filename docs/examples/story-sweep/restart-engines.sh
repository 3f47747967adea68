#!/bin/sh
# Empties every KV cache by replacing the engines.
set -eu
cd "$(dirname "$0")"
. ./deployment.sh
restart_engines
