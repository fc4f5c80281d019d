# VRFs without devices: a host reaches this machine's addresses in its own VRF, and in no other.
. "$(dirname "$0")/lib.sh"
need ping ethtool python3

#   a ── v0 main   r   v1 blue ── c        each has the addresses of its number, and 10.0.9.1;
#   m ── m0 main       v2 green ── d       m0 is no port
host r m
! on r ip link add try type vrf table 99 2>/dev/null || skip "the kernel has VRF devices, which keep them apart"
station a v0 10.0.1.2/24 10.0.1.1 2001:db8:1::2/64 2001:db8:1::1
station c v1 10.0.3.2/24 10.0.3.1 2001:db8:3::2/64 2001:db8:3::1
station d v2 10.0.4.2/24 10.0.4.1 2001:db8:4::2/64 2001:db8:4::1
for name in a c d; do on $name ip address add 10.0.9.2/24 dev eth0; done
link m eth0 r m0
on m ip address add 192.168.9.2/24 dev eth0
on m ip route add default via 192.168.9.1
on r ip address add 192.168.9.1/24 dev m0
rules() { on r ip rule && on r ip -6 rule; }
before=$(rules)
config() { # a host of main has an address of blue's, one of green's has one of main's
	port p0 v0 10.0.1.1/24 2001:db8:1::1/64 |
		sed 's|"10.0.1.1/24"|"10.0.1.1/24", "10.0.9.1/24", "10.0.3.254/24"|'
	port p1 v1 10.0.3.1/24 2001:db8:3::1/64 'vrf = "blue"' | sed 's|"10.0.3.1/24"|"10.0.3.1/24", "10.0.9.1/24", "10.0.33.1/32"|'
	port p2 v2 10.0.4.1/24 2001:db8:4::1/64 'vrf = "green"' |
		sed 's|"10.0.4.1/24"|"10.0.4.1/24", "10.0.9.1/24", "10.0.1.254/24"|'
	printf '%s\n' '[vrf.blue]' 'table = 100' '[vrf.green]' 'table = 200'
}
config | router_start
on a ip address add 10.0.3.1/24 dev eth0
on d ip address add 10.0.1.1/24 dev eth0

background listener ip netns exec "${P}r" python3 -c '
import socket
listener = socket.create_server(("::", 7777), family=socket.AF_INET6, dualstack_ipv6=True)
print("ready", flush=True)
while True:
    listener.accept()[0].close()'
is_ready listener
connects() { # NS ADDRESS [SECONDS]
	on "$1" timeout "${3:-2}" bash -c "exec 3<>/dev/tcp/$2/7777" 2>/dev/null
}
has() { # NS ADDRESS …
	local name=$1 address
	shift
	for address in "$@"; do
		assert_ping "$name" "$address"
		connects "$name" "$address" $((10 * PATIENCE)) || fail "$name does not connect to $address"
	done
}
has_not() { # NS ADDRESS …
	local name=$1 address probes=()
	shift
	# All at once: each takes the seconds that a connection is given.
	for address in "$@"; do
		(
			! on "$name" ping -n -q -c 2 -i 0.2 -W 0.5 "$address" >/dev/null || fail "$name reaches $address"
			! connects "$name" "$address" || fail "$name connects to $address"
		) &
		probes+=("$!")
	done
	local probe
	for probe in "${probes[@]}"; do
		wait "$probe" || fail "$name is not apart: above"
	done
}
all_apart() {
	has a 10.0.1.1 2001:db8:1::1 10.0.9.1 192.168.9.1
	has c 10.0.3.1 2001:db8:3::1 10.0.9.1 10.0.33.1
	has d 10.0.4.1 2001:db8:4::1 10.0.9.1
	has m 192.168.9.1 10.0.1.1
	has_not a 10.0.4.1 10.0.33.1 2001:db8:3::1 2001:db8:4::1
	has_not c 10.0.1.1 10.0.4.1 192.168.9.1 2001:db8:1::1 2001:db8:4::1
	has_not d 10.0.3.1 10.0.33.1 2001:db8:1::1 2001:db8:3::1
	has_not m 10.0.4.1 10.0.33.1
	# Hosts with an address that is this machine's in another VRF.
	assert_ping a 10.0.3.254 -I 10.0.3.1
	assert_ping d 10.0.1.254 -I 10.0.1.1
}
all_apart
still_apart() {
	has a 10.0.1.1
	has c 10.0.3.1 2001:db8:3::1
	has_not a 10.0.4.1 2001:db8:3::1
	has_not c 10.0.1.1 2001:db8:4::1
}
# Neighbours with link-local addresses do the same.
for end in "a p0" "c p1" "d p2"; do
	read -r name port <<<"$end"
	local_of=$(on r ip -6 -o address show dev "$port" scope link | awk '{ print $4; exit }')
	assert_ping "$name" "${local_of%/*}%eth0"
done

# Addresses that come and go.
on r ip address add 10.0.44.1/24 dev p2
on r ip -6 address add 2001:db8:44::1/64 dev p2 nodad
on d ip address add 10.0.44.2/24 dev eth0
wait_for 5 reaches d 10.0.44.1
wait_for 5 reaches d 2001:db8:44::1
assert_ping d 10.0.44.1 -I 10.0.44.2
has_not a 10.0.44.1 2001:db8:44::1
has_not c 10.0.44.1 2001:db8:44::1
assert_no_match "$(on r ip route; on r ip -6 route)" '10\.0\.44\.0|2001:db8:44:' "main's routes"
on r ip address add 10.0.33.1/32 dev lo # blue's, which main then has, too
wait_for 5 reaches a 10.0.33.1
has_not d 10.0.33.1
on r ip address del 10.0.33.1/32 dev lo
on r ip address del 10.0.44.1/24 dev p2
on r ip -6 address del 2001:db8:44::1/64 dev p2
gone() { assert_no_ping "$@"; }
wait_for 5 gone a 10.0.33.1
wait_for 5 gone d 10.0.44.1
none_left() {
	assert_no_match "$(on r ip route show table 200)" '10\.0\.44\.' "what green's table has of it"
	assert_no_match "$(rules)" '10\.0\.44\.|2001:db8:44:' "rules for it"
}
wait_for 5 none_left
# A tap that was down gets everything back.
on r ip link set p1 down
on r ip link set p1 up
wait_for 10 reaches c 10.0.3.1
wait_for 10 reaches c 2001:db8:3::1
still_apart

# Changes are reverted, also by a start, and by a cleanup after a kill.
router_kill
config | router_start
still_apart
router_stop
assert_eq "$(rules)" "$before" "rules after a stop"
assert_no_match "$(on r ip route show table 100; on r ip -6 route show table 100)" '^(local|broadcast|anycast)' \
	"copies after a stop"
config | router_start
router_kill
on r "$RUTTER" run --cleanup --config "$TMP/rutter.toml"
assert_eq "$(rules)" "$before" "rules after a cleanup"
