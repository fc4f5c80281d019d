# ARP and neighbour discovery: learnt, kept, forgotten, refused, set by hand.
. "$(dirname "$0")/lib.sh"
need ping ethtool

two_hosts
two_ports | router_start
assert_ping a 10.0.2.2
assert_ping a 2001:db8:2::2

at_b() { # ADDRESS [STATE]
	rutter show neighbours -j | json "any(n['address'] == '$1' and n['mac'] == '$(mac_of b eth0)' \
		and ('${2:-}' in ('', n['state'])) for n in x)" | found True
}
wait_for 5 at_b 10.0.2.2
wait_for 5 at_b 2001:db8:2::2

# The kernel's limit is a setting of its first network namespace: the limit is known and reported.
assert_match "$(rutter show capacity)" "kernel neighbours ipv4, of the machine .*gc_thresh3" "the kernel's limit"
limit() { # FAMILY
	rutter show capacity -j | json "next(c['limit'] for c in x if c['what'].startswith('kernel neighbours $1'))"
}
assert_match "$(on r "$RUTTER" doctor)" "neighbours +a network namespace: .*$(limit ipv4) of ipv4 .*$(limit ipv6) of ipv6" \
	"doctor names the limits"
if [ "$(limit ipv4)" -lt 65536 ]; then
	assert_match "$(cat "$TMP"/*.log)" "holds $(limit ipv4) neighbours of ipv4" "the log at the start"
	assert_eq "$(cat "$TMP"/*.log | grep -c "for the whole machine")" 1 "lines about that"
fi

# A neighbour that the kernel forgets is found again.
on r ip neighbour flush dev p1
assert_ping a 10.0.2.2
assert_ping a 2001:db8:2::2

# A neighbour that moves to another card is followed.
on b ip link set eth0 address 02:00:00:00:be:ef
# The kernel of r ignores another address for a second after it has learnt one.
asks() { on b ip neighbour flush dev eth0 && on b ping -n -q -c 1 -W 1 10.0.2.1; }
wait_for 10 asks
wait_for 10 reaches a 10.0.2.2

# Nobody is there: the router reports that.
assert_told a 10.0.2.77 "From 10.0.1.1 .*Destination Host Unreachable" "no such host" -W 5

# A permanent entry: a host that does not answer ARP.
on b ip link set eth0 arp off
on r ip neighbour flush dev p1
rutter neighbour add 10.0.2.2 --interface p1 --mac 02:00:00:00:be:ef
on b ip neighbour replace 10.0.2.1 lladdr "$(mac_of r p1)" dev eth0 nud permanent
assert_ping a 10.0.2.2
rutter neighbour del 10.0.2.2 --interface p1
wait_for 5 sh -c '! "$RUTTER" show neighbours | grep -q "10.0.2.2 .*permanent"'
