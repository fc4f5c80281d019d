#!/usr/bin/env bash
# Counts instructions of fixed workloads with callgrind and compares them with
# the record: repeatable where time is not. Counters of the processor are not needed.
#
#   scripts/instructions.sh            exit status 1 if an operation costs more than recorded
#   scripts/instructions.sh --record   write the record anew, to be reviewed as a diff
#
# An operation's count is the difference of two amounts of work, so building the
# tables does not count.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly RECORD=docs/lab/instructions.txt
readonly SOME=49152 MORE=147456 # operations; multiples of the workloads' bursts
readonly TOLERANCE=6            # per cent: what another compiler may make of it

if ! command -v valgrind >/dev/null; then
	echo "instruction counts: skipped, valgrind is not installed"
	exit 0
fi
if ! grep -qw avx2 /proc/cpuinfo; then
	echo "instruction counts: skipped, the record is of a processor with AVX2"
	exit 0
fi

${CARGO:-cargo} build --locked --quiet --profile count -p lab --example workload
workload=${CARGO_TARGET_DIR:-target}/count/examples/workload

count() { # WORKLOAD OPERATIONS
	local out
	out=$(valgrind --tool=callgrind --callgrind-out-file=/dev/null "$workload" "$1" "$2" 2>&1) || {
		echo "$out" >&2
		return 1
	}
	sed -n 's/.*Collected : \([0-9]*\).*/\1/p' <<<"$out"
}

measured=$(mktemp)
trap 'rm -f "$measured"' EXIT
"$workload" list | while read -r name; do
	some=$(count "$name" $SOME)
	more=$(count "$name" $MORE)
	awk -v n="$name" -v d=$((more - some)) -v o=$((MORE - SOME)) \
		'BEGIN { printf "%-28s %8.1f\n", n, d / o }'
done >"$measured"

if [ "${1:-}" = --record ]; then
	mkdir -p "$(dirname $RECORD)"
	{
		echo "# Instructions of one operation (a packet, a lookup); scripts/instructions.sh --record"
		cat "$measured"
	} >$RECORD
	cat $RECORD
	exit 0
fi

# The count is the last field: names may have spaces.
awk -v tolerance=$TOLERANCE '
	{ name = $0; sub(/ +[0-9.]+$/, "", name) }
	/^#/ { next }
	NR == FNR { recorded[name] = $NF; next }
	!(name in recorded) { printf "%-28s %8.1f  not recorded yet\n", name, $NF; next }
	{
		change = ($NF / recorded[name] - 1) * 100
		word = change > tolerance ? "TOO MANY" : change < -tolerance ? "fewer: record it" : "as recorded"
		printf "%-28s %8.1f  recorded %8.1f  %+6.1f %%  %s\n", name, $NF, recorded[name], change, word
		bad += change > tolerance
	}
	END { exit bad > 0 }
' $RECORD "$measured"
