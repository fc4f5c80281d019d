#!/usr/bin/env bash
# The quick set of the lab's experiments, and the report of what they measured.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo=${CARGO:-cargo}
$cargo build --locked --release -p cli
rutter=${CARGO_TARGET_DIR:-target}/release/rutter
"$rutter" lab list
mapfile -t names < <("$rutter" lab list | awk 'NF { print $1 }')
"$rutter" lab run "${names[@]}" --quick --out lab/records
"$rutter" lab report
