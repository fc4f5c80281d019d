# Shared by smoke scripts: namespaces, links, a router, assertions, cleanup. Each script sources it;
# `run.sh` runs the scripts.
#
# A script is named for one capability, uses Rutter by its public commands only, and asserts with
# ping, traceroute, counters. Everything that it makes has the prefix $P, which belongs to the
# script, and is removed when the script ends, however it ends.
#
# shellcheck shell=bash disable=SC2034

set -euo pipefail
shopt -s lastpipe # `… | router_start` sets $router_pid here
exec </dev/null

[ -n "${RUTTER:-}" ] || { echo "set RUTTER to the binary (run.sh does)" >&2; exit 2; }
readonly SKIPPED=77
readonly PATIENCE=${SMOKE_PATIENCE:-1} # times as long is waited for what takes time
SMOKE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
P=rs${$}_ # ends like no number: another script's may begin with this one's
TMP=$(mktemp -d "${TMPDIR:-/tmp}/rutter-smoke.XXXXXX")
SOCKET=$TMP/api.sock
PATH=$PATH:/usr/sbin:/sbin
pids=()
router_pid=

remove_namespaces() {
	local ns
	for ns in $(ip netns list 2>/dev/null | cut -d ' ' -f 1 | grep "^$P"); do ip netns del "$ns"; done
}

cleanup() {
	local status=$? pid
	trap - EXIT INT TERM HUP
	set +e
	[ "$status" = 0 ] || [ "$status" = "$SKIPPED" ] || show_what_went_wrong
	for pid in "${pids[@]}" $router_pid; do kill -TERM "$pid" 2>/dev/null; done
	for pid in "${pids[@]}" $router_pid; do wait_gone "$pid" 50 || kill -KILL "$pid" 2>/dev/null; done
	remove_namespaces
	rm -rf "$TMP"
	exit "$status"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
remove_namespaces || true # of a script of the same number that was killed

show_what_went_wrong() {
	local log
	for log in "$TMP"/*.log; do
		[ -s "$log" ] || continue
		echo "--- ${log##*/}"
		tail -n 30 "$log"
	done
	if [ -n "$router_pid" ] && kill -0 "$router_pid" 2>/dev/null; then
		echo "--- show drops"
		rutter show drops | tail -n 30
	fi
}

# ----- the end of a script

skip() { # REASON
	echo "skip: $*"
	exit "$SKIPPED"
}

fail() { # WHAT
	echo "failed: $*"
	echo "  at $(caller 1 2>/dev/null || caller 0)"
	exit 1
}

need() { # COMMAND …: skips where one is not there
	local command
	for command in "$@"; do
		command -v "$command" >/dev/null || skip "$command is not installed"
	done
}

needs_vrf_devices() { # asks namespace r
	on r ip link add try type vrf table 99 2>/dev/null || skip "the kernel has no VRF devices"
	on r ip link del try
}

# ----- namespaces and links

ns() { echo "$P$1"; } # NAME: its name on this machine

on() { # NAME COMMAND …: runs it in the namespace
	local name=$1
	shift
	ip netns exec "$P$name" "$@"
}

# A namespace with loopback up. IPv6 addresses work at once: duplicate address
# detection would hold them back for a second or two.
host() { # NAME …
	local name
	for name in "$@"; do
		ip netns add "$P$name"
		on "$name" ip link set lo up
		on "$name" sh -c 'cd /proc/sys/net/ipv6/conf; for f in default all; do
			echo 0 >$f/accept_dad; echo 1 >$f/keep_addr_on_down; done'
	done
}

# Restores a host's link, and the addresses and routes on it, after it was down.
host_up() { # NAME GATEWAY4 GATEWAY6
	on "$1" ip link set eth0 up
	on "$1" ip route replace default via "$2"
	on "$1" ip -6 route replace default via "$3"
}

# Two ends of a wire. Offloads are off: otherwise a checksum left to absent hardware would reach the
# router unfinished, and segments would arrive joined.
link() { # NS IF NS IF [MTU]
	ip link add "$P-l" netns "$P$1" type veth peer name "$P-r" netns "$P$3"
	end_of_link "$1" "$P-l" "$2" "${5:-1500}"
	end_of_link "$3" "$P-r" "$4" "${5:-1500}"
}

end_of_link() { # NS TEMPORARY-NAME IF MTU
	on "$1" ip link set "$2" name "$3" mtu "$4"
	on "$1" ethtool -K "$3" tx off rx off tso off gso off gro off txvlan off rxvlan off >/dev/null 2>&1 || true
	on "$1" ip link set "$3" up
}

# A host on a wire to interface IF of the router, which has no address in the
# kernel; with its own addresses and default routes.
station() { # NAME IF ADDR4/LEN GATEWAY4 ADDR6/LEN GATEWAY6
	host "$1"
	link "$1" eth0 r "$2"
	on "$1" ip address add "$3" dev eth0
	on "$1" ip route add default via "$4"
	on "$1" ip address add "$5" dev eth0 nodad
	on "$1" ip -6 route add default via "$6"
}

# The network of most scripts:
#
#   a 10.0.1.2, 2001:db8:1::2 ── v0  r  v1 ── b 10.0.2.2, 2001:db8:2::2
two_hosts() {
	host r
	station a v0 10.0.1.2/24 10.0.1.1 2001:db8:1::2/64 2001:db8:1::1
	station b v1 10.0.2.2/24 10.0.2.1 2001:db8:2::2/64 2001:db8:2::1
}

# The configuration for it; ports p0 and p1 on devices v0 and v1.
two_ports() { # [EXTRA PORT KEYS]
	port p0 v0 10.0.1.1/24 2001:db8:1::1/64 "${1:-}"
	port p1 v1 10.0.2.1/24 2001:db8:2::1/64 "${1:-}"
}

# ----- configuration

# The device that works in all namespaces; RUTTER_SMOKE_DEVICE selects another, such as net_af_xdp.
device() { # INDEX IF
	case ${RUTTER_SMOKE_DEVICE:-packet} in
	packet) echo "packet:$2" ;;
	*) echo "$RUTTER_SMOKE_DEVICE$1,iface=$2" ;;
	esac
}

port() { # NAME IF ADDR4 ADDR6 [MORE LINES]
	local addresses=()
	[ -z "$3" ] || addresses+=("\"$3\"")
	[ -z "$4" ] || addresses+=("\"$4\"")
	cat <<-END
		[ports.$1]
		device = "$(device "${1#p}" "$2")"
		addresses = [$(IFS=,; echo "${addresses[*]}")]
		${5:-}
	END
}

bare_ports() { # COUNT: ports p0, p1 … on devices v0, v1 …, without addresses
	local i
	for ((i = 0; i < $1; i++)); do printf '[ports.p%s]\ndevice = "%s"\n' "$i" "$(device "$i" "v$i")"; done
}

# ----- the router

export RUTTER_SOCKET=$SOCKET

rutter() { # COMMAND …: as a client, of this script's router
	"$RUTTER" "$@"
}

router_spawn() { # [CONFIGURATION on standard input]: starts, does not wait
	[ ! -p /dev/stdin ] || cat >"$TMP/rutter.toml"
	ip netns exec "${P}r" "$RUTTER" run --config "$TMP/rutter.toml" \
		>>"$TMP/rutter.log" 2>&1 </dev/null &
	router_pid=$!
}

router_start() { # [CONFIGURATION on standard input]: starts and waits until it answers
	router_spawn
	router_ready
}

router_ready() {
	local i
	for ((i = 0; i < 300 * PATIENCE; i++)); do
		kill -0 "$router_pid" 2>/dev/null || fail "the router ended while starting"
		rutter show system >/dev/null 2>&1 && return
		sleep 0.1
	done
	fail "the router does not answer after $((30 * PATIENCE)) s"
}

router_stop() { # ends it as systemd would, and expects success
	[ -n "$router_pid" ] || return 0
	local pid=$router_pid status=0
	kill -TERM "$pid"
	wait_gone "$pid" 200 || fail "the router does not end on SIGTERM"
	wait "$pid" || status=$?
	router_pid=
	[ "$status" = 0 ] || fail "the router ended with status $status"
}

router_kill() { # SIGKILL
	kill -KILL "$router_pid"
	wait "$router_pid" 2>/dev/null || true
	router_pid=
}

is_ready() { # NAME: the process of `background` has said so
	wait_for 20 grep -q ready "$TMP/$1.log"
}

background() { # NAME COMMAND …: a process that ends with the script, its log NAME.log; sets $last_pid
	local name=$1
	shift
	"$@" >>"$TMP/$name.log" 2>&1 </dev/null &
	last_pid=$!
	pids+=("$last_pid")
}

wait_gone() { # PID TENTHS
	local i
	for ((i = 0; i < $2 * PATIENCE; i++)); do
		kill -0 "$1" 2>/dev/null || return 0
		# A zombie is gone: only its parent, this script, has to look.
		[ "$(ps -o stat= -p "$1" 2>/dev/null | cut -c 1)" != Z ] || return 0
		sleep 0.1
	done
	return 1
}

# A program adds and removes tags: many kernels have no VLAN_8021Q.
tagged() { # NS IF TAP TAG [TAG]: TAP carries the frames with these tags on IF
	local name=$1 tap=$3
	background "tag-$name-$tap" ip netns exec "$P$name" python3 "$SMOKE/frames.py" tag "$2" "$3" "${@:4}"
	is_ready "tag-$name-$tap"
	on "$name" ip link set "$tap" mtu "${TAGGED_MTU:-1500}" up
}

mac_of() { # NS IF
	on "$1" cat "/sys/class/net/$2/address"
}

frames() { # NS ARGUMENTS: frames.py there
	local name=$1
	shift
	on "$name" python3 "$SMOKE/frames.py" "$@"
}

# ----- assertions

now_ms() {
	local us=${EPOCHREALTIME/[!0-9]/}
	echo $((us / 1000))
}

# It fails only where a try fails that began after the whole time: the seconds of the clock may be
# over sooner, and a try may take long.
wait_for() { # SECONDS COMMAND …: until it succeeds
	local deadline is_last
	deadline=$(($(now_ms) + $1 * 1000 * PATIENCE))
	shift
	while is_last=$(($(now_ms) >= deadline)); ! ("$@") >/dev/null 2>&1; do # an assertion may end its shell
		[ $is_last = 0 ] || { ("$@") || true; fail "not so within the time: $*"; }
		sleep 0.2
	done
}

# The first packet may be lost while the neighbour is resolved: three tries, one must pass.
reaches() { # NS ADDR [PING ARGUMENTS]
	local name=$1 addr=$2
	shift 2
	on "$name" ping -n -q -c 3 -i 0.2 -W 1 "$@" "$addr"
}

# On a busy machine all three may be late.
assert_ping() { # NS ADDR [PING ARGUMENTS]
	local i
	for ((i = 0; i < 3 * PATIENCE; i++)); do
		! reaches "$@" >"$TMP/ping.out" 2>&1 || return 0
	done
	cat "$TMP/ping.out"
	fail "ping $*"
}

assert_no_ping() { # NS ADDR [PING ARGUMENTS]
	! reaches "$@" >/dev/null 2>&1 || fail "ping $* succeeds, and must not"
}

# The router's kernel sends few errors a second to one host, and fewer to one that repeats its
# packets: hence the pauses.
assert_told() { # NS ADDR REGEX WHAT [PING ARGUMENTS]
	local i
	for ((i = 0; i < 6; i++)); do
		on "$1" ping -n -c 1 -W 4 "${@:5}" "$2" >"$TMP/ping.out" 2>&1 && fail "ping $2 succeeds, and must not"
		! grep -Eq -- "$3" "$TMP/ping.out" || return 0
		sleep 2.5
	done
	cat "$TMP/ping.out"
	fail "$4: nothing matches $3"
}

assert_no_loss() { # NS ADDR COUNT: every one of COUNT comes back
	frames "$1" echo "$2" --count "$3" >"$TMP/echo.out" 2>&1 || { cat "$TMP/echo.out"; fail "packets lost: $1 $2"; }
}

pinging() { # NS ADDR INTERVAL: until `pinged`
	rm -f "$TMP/pinging.log"
	background pinging ip netns exec "$P$1" python3 "$SMOKE/frames.py" echo "$2" --interval "$3"
	pinging_pid=$last_pid
	is_ready pinging
}

pinged() { # WHILE-WHAT: every one came back
	kill -TERM "$pinging_pid"
	wait "$pinging_pid" || { cat "$TMP/pinging.log"; fail "packets lost while $1"; }
}

# A route as `traceroute` and `tracepath` show it. An answer may be late, or exceed the rate at
# which kernels send errors: the route is tried a few times.
assert_way() { # WHAT REGEX … -- NS COMMAND …
	local what=$1 regexes=() i regex
	shift
	while [ "$1" != -- ]; do regexes+=("$1") && shift; done
	shift
	for ((i = 0; i < 4; i++)); do
		[ $i = 0 ] || sleep 2
		on "$@" >"$TMP/way.out" 2>&1 || true
		for regex in "${regexes[@]}"; do grep -Eq -- "$regex" "$TMP/way.out" || continue 2; done
		return
	done
	cat "$TMP/way.out"
	fail "$what: nothing matches $regex"
}

# As `grep -q`, but it reads to the end: otherwise the writer would fail without a reader, and the
# pipe with it.
found() { # ARGUMENTS OF GREP
	[ "$(grep -c "$@")" != 0 ]
}

# How long the router's workers have waited for cores that others use, in ms: what is promised within a
# time cannot be asked of a machine that does not run it. (Each second it counts that second's.)
starved_ms() {
	rutter show runtime -j | json "sum(w['starved_ns'] for w in x['workers']) // 10**6" 2>/dev/null || echo 0
}

known() { # ADDRESS: the router has this neighbour's MAC
	rutter show neighbours -j | json "any(n['address'] == '$1' and n['mac'] for n in x)" | found True
}

assert_eq() { # FOUND EXPECTED WHAT
	[ "$1" = "$2" ] || fail "$3: $1, expected $2"
}

assert_match() { # TEXT REGEX WHAT
	grep -Eq -- "$2" <<<"$1" || { echo "$1"; fail "$3: nothing matches $2"; }
}

assert_no_match() { # TEXT REGEX WHAT
	! grep -Eq -- "$2" <<<"$1" || { echo "$1"; fail "$3: something matches $2"; }
}

assert_status() { # STATUS COMMAND …
	local expected=$1 status=0
	shift
	"$@" >"$TMP/status.out" 2>&1 || status=$?
	[ "$status" = "$expected" ] || { cat "$TMP/status.out"; fail "$* ends with $status, expected $expected"; }
}

assert_at_most() { # FOUND LIMIT WHAT
	[ "$1" -le "$2" ] || fail "$3: $1, at most $2 expected"
}

# Packets that the kernel of a namespace has forwarded itself, in both families. Between ports the
# data plane forwards: only punted packets may count here.
kernel_forwarded() { # NS
	on "$1" awk '
		FILENAME ~ /snmp6$/ { if ($1 == "Ip6OutForwDatagrams") n += $2; next }
		$1 == "Ip:" && !head { for (i = 2; i <= NF; i++) if ($i == "ForwDatagrams") at = i; head = 1; next }
		$1 == "Ip:" { n += $at }
		END { print n + 0 }' /proc/net/snmp /proc/net/snmp6
}

json() { # PYTHON EXPRESSION over x, the JSON on standard input
	python3 -c 'import json, sys; x = json.load(sys.stdin); print(eval(sys.argv[1].strip()))' "$1"
}
