# Stops and starts: SIGTERM, SIGINT, kill -9 of Rutter and of BIRD, in any order.
. "$(dirname "$0")/lib.sh"
need ping bird ethtool
. "$SMOKE/routing.sh"

two_hosts
on b ip route add local 100.64.0.0/10 dev lo
peer_announces b 1000 100
two_ports | router_start
bird_on_router
wait_for 30 has_routes 1000 100
assert_ping a 100.64.3.1

# Rutter is killed: the kernel keeps taps, addresses, BGP's session; all is right again within five seconds.
router_kill
assert_no_ping a 100.64.3.1
router_start
wait_for 5 has_routes 1000 100
assert_ping a 100.64.3.1
wait_for 5 same_as_kernel

# BIRD is killed: its routes stay in use; BIRD comes back, and all is right again.
kill -KILL "$router_bird_pid"
sleep 1
assert_ping a 100.64.3.1
bird_on_router
wait_for 30 bird_is_ready
wait_for 10 has_routes 1000 100
wait_for 5 same_as_kernel

# Routes that changed while Rutter was away.
router_kill
on r ip route add 10.66.0.0/16 via 10.0.2.2
on r ip route del 100.64.5.0/24 || true # BIRD, who saw the taps lose their carrier, may have been faster
router_start
wait_for 5 sh -c '"$RUTTER" show routes | grep -q 10.66.0.0/16'
wait_for 5 same_as_kernel

# Both are killed, and both come back.
router_kill
kill -KILL "$router_bird_pid"
router_start
bird_on_router
wait_for 30 bird_is_ready
wait_for 10 has_routes 1000 100
wait_for 10 same_as_kernel
assert_ping a 100.64.3.1

# SIGTERM, SIGINT and SIGHUP end it in order, and it restores the settings.
router_stop
for signal in INT HUP; do
	router_start
	kill -$signal "$router_pid"
	wait_gone "$router_pid" 100 || fail "the router does not end on SIG$signal"
	wait "$router_pid" || true
	router_pid=
	for netdev in v0 v1; do
		assert_eq "$(on r cat /proc/sys/net/ipv6/conf/$netdev/disable_ipv6)" 0 "disable_ipv6 of $netdev is restored"
	done
done

# Links that change while Rutter is away: a carrier that a killed run had switched off is on again,
# and the other way round.
carrier_is() { assert_eq "$(on r cat /sys/class/net/p1/carrier)" "$1" "the carrier of p1"; }
router_start
on b ip link set eth0 down
wait_for 5 carrier_is 0
router_kill
host_up b 10.0.2.1 2001:db8:2::1
router_start
wait_for 5 carrier_is 1
assert_ping a 10.0.2.2
router_kill
on b ip link set eth0 down
router_start
wait_for 5 carrier_is 0
host_up b 10.0.2.1 2001:db8:2::1
wait_for 5 carrier_is 1
assert_ping a 10.0.2.2
router_stop

# Taps stay until `rutter` is asked to remove them.
on r ip link show dev p0 >/dev/null || fail "the tap p0 is gone after an ordinary end"
router_start
rutter stop --remove
wait_gone "$router_pid" 100 || fail "stop --remove does not end the router"
router_pid=
! on r ip link show dev p0 >/dev/null 2>&1 || fail "the tap p0 is still there after stop --remove"
router_start
router_kill
on r "$RUTTER" run --cleanup --config "$TMP/rutter.toml"
! on r ip link show dev p0 >/dev/null 2>&1 || fail "the tap p0 is still there after run --cleanup"

# Taps that the configuration no longer names are removed in every case.
renamed() { sed 's/ports\.p1\]/ports.q1]/' "$TMP/rutter.toml"; }
gone() { ! on r ip link show dev "$1" >/dev/null 2>&1 || fail "the tap $1 is still there: $2"; }
router_start
router_stop
cp "$TMP/rutter.toml" "$TMP/old.toml"
renamed >"$TMP/new.toml"
cp "$TMP/new.toml" "$TMP/rutter.toml"
router_start
gone p1 "renamed, and started again"
assert_match "$(cat "$TMP/rutter.log")" 'p1 is no longer in the configuration' "the log names it"
on r ip link show dev q1 >/dev/null || fail "there is no tap q1"
assert_ping a 10.0.2.2
router_kill
on r "$RUTTER" run --cleanup --config "$TMP/old.toml"
gone q1 "cleanup with the old configuration"
