# VRF devices, where the kernel has them: created, kept, created again, left alone.
. "$(dirname "$0")/lib.sh"
need ping ethtool python3

two_hosts
needs_vrf_devices
on b ip address add 10.0.9.9/32 dev lo
in_blue() {
	two_ports 'vrf = "blue"'
	printf '%s\n' '[vrf.blue]' 'table = 100' \
		'[[route]]' 'prefix = "10.0.9.0/24"' 'via = ["10.0.2.2"]' 'vrf = "blue"'
}
in_main() {
	two_ports
	printf '%s\n' '[vrf.blue]' 'table = 100'
}
above() { # TAP: the device above it
	on r ip -o link show "$1" | sed -n 's/.* master \([^ ]*\) .*/\1/p'
}
works() {
	assert_ping a 10.0.2.2
	assert_ping a 2001:db8:2::2
	assert_ping a 10.0.9.9
	assert_ping a 10.0.1.1
	assert_ping a 2001:db8:1::1
}
first_rules() { # REGEX: both families' first rule
	# Not `head`: a pipe that closes before the end of the list is an error to `ip`.
	on r ip rule show | sed -n 1p | grep "$1" >"$TMP/rule" && on r ip -6 rule show | sed -n 1p | grep "$1" >"$TMP/rule"
}
is_below_blue() { [ "$(above p0)" = blue ] && [ "$(above p1)" = blue ]; }

in_blue | router_start
is_below_blue || fail "the taps are not below the device"
works
assert_match "$(on r ip route show table 100)" '^unreachable default' "the search ends in the VRF"
assert_match "$(on r ip -6 route show table 100)" '^unreachable default' "the search ends in the VRF"
first_rules l3mdev || fail "main's own addresses are looked up before the VRF"

# The router itself, in its VRF: traffic out of it, and into it, by TCP too.
assert_ping r 10.0.2.2 -I blue
assert_ping r 2001:db8:2::2 -I blue
background server ip netns exec "${P}r" python3 -c 'import socket
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"blue"); s.bind(("10.0.1.1", 1790)); s.listen()
print("ready", flush=True)
while True: s.accept()[0].sendall(b"welcome\n")'
is_ready server
assert_eq "$(on a timeout 10 bash -c 'read -r line </dev/tcp/10.0.1.1/1790; echo "$line"')" welcome "TCP to the router in its VRF"

# Rutter is killed: the next start finds the device, and its own mark on it.
router_kill
in_blue | router_start
is_below_blue || fail "the taps have left the device"
first_rules l3mdev || fail "main's own addresses are looked up before the VRF"
works

# Somebody deletes the device: it is created again, with everything that belonged to it.
on r ip link del blue
wait_for 20 is_below_blue
wait_for 20 works
assert_match "$(on r ip route show table 100)" '10\.0\.9\.0/24' "the static route"

# Somebody sets the device down: it is set up again.
on r ip link set blue down
wait_for 10 sh -c "ip netns exec ${P}r ip link show up dev blue | grep -q blue"
wait_for 20 works

# A tap leaves the VRF by the configuration, and returns; the device is for another table then.
router_stop
first_rules 'lookup local' || fail "the kernel's first rule is not back: $(on r ip rule show)"
in_main | router_start
assert_eq "$(above p0)" "" "the device above a tap in main"
assert_ping a 10.0.2.2
assert_no_ping a 10.0.9.9
router_stop
in_blue | sed 's/table = 100/table = 101/' | router_start
is_below_blue || fail "the taps are not below the new device"
works
assert_match "$(on r ip -d link show blue)" 'vrf table 101' "the table of the device"

# Only devices that Rutter created are removed, never a user's device.
router_stop
on r "$RUTTER" run --cleanup --config "$TMP/rutter.toml"
! on r ip link show blue 2>/dev/null || fail "the device is left"
on r ip link add blue type vrf table 101
in_blue | sed 's/table = 100/table = 101/' | router_start
is_below_blue || fail "the taps are not below the user's device"
works
router_stop
on r "$RUTTER" run --cleanup --config "$TMP/rutter.toml"
on r ip link show blue >/dev/null || fail "the user's device is gone"
