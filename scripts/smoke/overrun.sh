# The kernel sends more messages than the mirror's socket holds: listing and comparing finds the
# lost changes.
. "$(dirname "$0")/lib.sh"
need ping ethtool
. "$SMOKE/routing.sh"

readonly MANY=110000 # to come and most to go: messages of over 128 MiB, as the kernel counts them
readonly LEFT=2000

# Routes FIRST … LAST - 1, a /28 each from 100.64.0.0 on, as `ip -batch` takes them.
batch() { # ADD-OR-DEL FIRST LAST
	awk -v what="$1" -v i="$2" -v last="$3" 'BEGIN {
		for (; i < last; i++)
			printf "route %s 100.%d.%d.%d/28 via 10.0.2.2\n", what, 64 + int(i / 4096), int(i / 16) % 256, i % 16 * 16 }'
}

overruns() {
	rutter show system -j | json 'sum(c[1] for f in x["feeds"] for c in f["counters"] if c[0] == "overruns")'
}

two_hosts
on b ip route add local 100.64.0.0/10 dev lo
two_ports | router_start
on r ip route add 100.127.0.0/24 via 10.0.2.2 # will go unheard
wait_for 5 same_as_kernel
assert_eq "$(overruns)" 0 "overruns before"

kill -STOP "$router_pid"
batch add 0 $MANY >"$TMP/add"
batch del $LEFT $MANY >"$TMP/del"
on r ip -batch "$TMP/add"
on r ip -batch "$TMP/del"
on r ip route del 100.127.0.0/24
kill -CONT "$router_pid"

wait_for 10 has_routes $LEFT 0
wait_for 5 same_as_kernel
[ "$(overruns)" -gt 0 ] || fail "nothing was lost: this does not test what it should"
assert_ping a 100.64.3.1
on r ip route add 100.126.0.0/24 via 10.0.2.2 # and it hears again
wait_for 5 same_as_kernel
