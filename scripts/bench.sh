#!/usr/bin/env bash
# The quick set of the lab's experiments, and the report of what they measured.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo=${CARGO:-cargo}
records=${RECORDS:-lab-records}
$cargo build --locked --release -p cli --features rivals
rutter=${CARGO_TARGET_DIR:-target}/release/rutter
"$rutter" lab run all --quick --out "$records"
"$rutter" lab report --out "$records"
