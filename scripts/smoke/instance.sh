# One instance for a socket; the socket is its owner's; senseless clients harm nobody.
. "$(dirname "$0")/lib.sh"
need ping ethtool python3

two_hosts
two_ports | router_start
assert_eq "$(stat -c %a "$SOCKET")" 600 "mode of the socket"

# A second one is refused by name.
told=$(on r "$RUTTER" run --config "$TMP/rutter.toml" 2>&1) && fail "a second instance starts"
assert_match "$told" "$router_pid|already|running" "why a second instance is refused"
assert_ping a 10.0.2.2

# Half requests and noise, held open while others are served.
background noise python3 "$SMOKE/frames.py" garbage "$SOCKET" --hold 3
for _ in 1 2 3 4 5; do
	rutter show ports >/dev/null || fail "show ports while noise is sent"
	sleep 0.3
done
assert_ping a 10.0.2.2

# A socket left by a dead one is no obstacle.
router_kill
[ -S "$SOCKET" ] || fail "no stale socket to test with"
assert_status 2 rutter show ports
router_start
assert_ping a 10.0.2.2
router_stop
assert_status 2 rutter show ports
