#!/usr/bin/env bash
# The tests of one engine, soon after an edit:
#
#   scripts/suite.sh ENGINE [TEST …]      part of a module's path (poptrie, vpp::cuvpp), then parts of tests' names
#
# The profile `suite` checks overflows and builds the library alone, in pieces that are kept.
set -euo pipefail
cd "$(dirname "$0")/.."

[ $# -gt 0 ] || {
	sed -n '2,/^$/s/^# \{0,1\}//p' "$0"
	exit 2
}
engine=${1//-/_}
shift
cargo=${CARGO:-cargo}
names=$($cargo test --locked --profile suite -p lookup --lib -- --list | sed -n 's/: test$//p' | grep -F -- "$engine" || true)
for part in "$@"; do names=$(grep -F -- "$part" <<<"$names" || true); done
[ -n "$names" ] || {
	echo "no test has ${engine}${*:+ and $*} in its name" >&2
	exit 2
}
# shellcheck disable=SC2086 # a name is a word
exec $cargo test --locked --profile suite -p lookup --lib -- --exact $names
