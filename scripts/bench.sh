#!/usr/bin/env bash
# The quick set of the lab's experiments, or with FULL=1 the full one, which takes
# hours of a quiet machine, and the report of what they measured. The full set measures
# the papers' lookups on real tables, too, where $RUTTER_DATA (../shared/data) has them.
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

# The papers' experiments that take tables, by the family that they measure: one that is given
# a table of the other refuses it.
of4='dxr/.*|sail/(fig3\.([789]|11|13)|table3\.[24])|bloomfwd/(fig[1-6]|table3)'
of6='cuvpp/(fig([6-9]|10)|table[234])|sail/(fig3\.1[67]|table3\.5)|bloomfwd/(fig[78]|table4)'
both='science/verdicts'
fib=${RUTTER_DATA:-../shared/data}/fib
v4=(--table "$fib/fib-v4-20151023-nh.txt.xz")
v6=(--table "$fib/v6fib-as852-20210117.xz")
[[ -z ${quick[*]} && -e ${v4[1]} ]] || v4=()
[[ -z ${quick[*]} && -e ${v6[1]} ]] || v6=()

# run PATTERN [OPTION …]: the experiments whose whole names match, or with OTHERS all others.
all=$("$rutter" lab list | cut -d' ' -f1)
run() {
	local names
	mapfile -t names < <(grep "${OTHERS:--}xE" "$1" <<<"$all")
	"$rutter" lab run "${names[@]}" "${quick[@]}" --out "$records" "${@:2}"
}

failed=0
run "$of4" "${v4[@]}" || failed=1
run "$of6" "${v6[@]}" || failed=1
run "$both" "${v4[@]}" "${v6[@]}" || failed=1
OTHERS=-v run "$of4|$of6|$both" || failed=1
"$rutter" lab report --out "$records"
exit "$failed"
