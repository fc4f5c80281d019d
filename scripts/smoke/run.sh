#!/usr/bin/env bash
# Runs smoke scripts, all or those named, and counts.
#
#   scripts/smoke/run.sh [--list] [-v] [NAME …]
#
# RUTTER is the binary (default: the newest of target/{debug,release}/rutter).
# As root they run in namespaces of their own; otherwise in a user namespace,
# where those are allowed. Logs are in target/smoke. SMOKE_PATIENCE=N waits N times
# as long for what takes time, on a slow machine. Ends with status 1 where one fails,
# with 3 where none could run.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=scripts/skip.sh
. scripts/skip.sh

readonly LIMIT_S=$((400 * ${SMOKE_PATIENCE:-1})) # ten times what the longest takes on an idle machine
verbose=
names=()
for argument in "$@"; do
	case $argument in
	--list) list=1 ;;
	-v) verbose=1 ;;
	-*) sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
	*) names+=("$argument") ;;
	esac
done
if [ ${#names[@]} = 0 ]; then
	for script in scripts/smoke/*.sh; do
		name=$(basename "$script" .sh)
		case $name in defended | lib | pair | routing | run | shield) ;; *) names+=("$name") ;; esac
	done
fi
if [ -n "${list:-}" ]; then
	printf '%s\n' "${names[@]}"
	exit
fi

if [ -z "${RUTTER:-}" ]; then
	RUTTER=$(ls -t "${CARGO_TARGET_DIR:-target}"/{debug,release}/rutter 2>/dev/null | head -n 1 || true)
	[ -n "$RUTTER" ] || { echo "no binary: cargo build -p cli, or set RUTTER" >&2; exit 2; }
fi
RUTTER=$(realpath "$RUTTER")
export RUTTER

logs=$(realpath "${CARGO_TARGET_DIR:-target}")/smoke
mkdir -p "$logs"

# Why nothing can run here; empty if it can.
obstacle() {
	command -v ip >/dev/null || { echo "ip (iproute2) is not installed"; return; }
	[ -c /dev/net/tun ] || { echo "no /dev/net/tun"; return; }
	local error
	ip netns del "rs$$-try" 2>/dev/null || true # of a process of the same number that was killed
	error=$(ip netns add "rs$$-try" 2>&1) || { echo "no network namespaces: $error"; return; }
	ip netns del "rs$$-try"
}

if [ "$(id -u)" != 0 ] && [ -z "${RUTTER_SMOKE_USERNS:-}" ]; then
	if scripts/userns.sh true 2>/dev/null; then
		exec env RUTTER_SMOKE_USERNS=1 scripts/userns.sh "$0" ${verbose:+-v} "${names[@]}"
	fi
	reason="neither root nor user namespaces"
else
	reason=$(obstacle)
fi

passed=0 failed=0 left_out=0 n=0
failures=()
running=
skip_it() { # NAME REASON: counted as skipped, or as failed where it may not be
	if skipped "smoke/$1" "$2"; then
		echo "ok $n - $1 # skip $2"
		left_out=$((left_out + 1))
	else
		echo "not ok $n - $1: skipped ($2), and scripts/skips.txt does not have it"
		failed=$((failed + 1))
		failures+=("$1")
	fi
}
stop() {
	[ -z "$running" ] || { kill -TERM "$running" 2>/dev/null; wait "$running" 2>/dev/null; }
	echo "interrupted"
	exit 130
}
trap stop INT TERM

echo "1..${#names[@]}"
for name in "${names[@]}"; do
	n=$((n + 1))
	script=scripts/smoke/$name.sh
	[ -e "$script" ] || { echo "not ok $n - $name: no such script"; failed=$((failed + 1)); failures+=("$name"); continue; }
	if [ -n "$reason" ]; then
		skip_it "$name" "$reason"
		continue
	fi
	begin=$(date +%s%N)
	status=0
	if [ -n "$verbose" ]; then
		timeout --kill-after=20 "$LIMIT_S" bash -x "$script" > >(tee "$logs/$name.log") 2>&1 &
	else
		timeout --kill-after=20 "$LIMIT_S" bash "$script" >"$logs/$name.log" 2>&1 &
	fi
	running=$!
	wait "$running" || status=$?
	running=
	took=$((($(date +%s%N) - begin) / 100000000))
	took=$((took / 10)).$((took % 10))
	case $status in
	0)
		echo "ok $n - $name ($took s)"
		passed=$((passed + 1))
		;;
	77)
		skip_it "$name" "$(sed -n 's/^skip: //p' "$logs/$name.log" | tail -n 1)"
		;;
	*)
		[ "$status" != 124 ] || echo "failed: more than $LIMIT_S s" >>"$logs/$name.log"
		echo "not ok $n - $name ($took s, status $status)"
		grep -a -A 1 '^failed: ' "$logs/$name.log" | sed 's/^/    /' || true
		tail -n 40 "$logs/$name.log" | sed 's/^/    /'
		failed=$((failed + 1))
		failures+=("$name")
		;;
	esac
done

echo
[ $failed = 0 ] || echo "failed: ${failures[*]}"
echo "smoke: $passed passed, $failed failed, $left_out skipped"
[ $failed = 0 ] || exit 1
[ $passed -gt 0 ] || exit 3
