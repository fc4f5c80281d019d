#!/usr/bin/env bash
# The quick set of the lab's experiments, or with FULL=1 the full one, which takes
# hours of a quiet machine, and the report of what they measured.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo=${CARGO:-cargo}
records=${RECORDS:-lab-records}
RUTTER_COMMIT=$(git describe --always --abbrev=12 --dirty 2>/dev/null || echo unknown)
export RUTTER_COMMIT
quick=(--quick)
if [[ -n ${FULL:-} ]]; then quick=(); fi

$cargo build --locked --release -p cli -p lab --features lab/rivals
rutter=${CARGO_TARGET_DIR:-target}/release/rutter
"$rutter" lab run all "${quick[@]}" --out "$records"
"$rutter" lab report --out "$records"
