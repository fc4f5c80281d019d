# A start with a full table: until the kernel's routes are listed, no packet takes a shorter prefix
# instead, and none is answered "unreachable"; packets are dropped as not_ready.
. "$(dirname "$0")/lib.sh"
need ping ethtool python3

two_hosts
station c v2 10.0.3.2/24 10.0.3.1 2001:db8:3::2/64 2001:db8:3::1
on b ip route add local 100.64.0.0/10 dev lo
{
	two_ports
	port p2 v2 10.0.3.1/24 2001:db8:3::1/64
} | router_start
assert_ping a 10.0.2.2
assert_ping a 10.0.3.2

# A default route to c, and 131,072 prefixes to b; the last one is tested.
to=100.127.255.225
{
	echo route add default via 10.0.3.2
	awk 'BEGIN { for (i = 0; i < 131072; i++)
		printf "route add 100.%d.%d.%d/27 via 10.0.2.2\n", 64 + int(i / 2048), int(i / 8) % 256, i % 8 * 32 }'
} | on r ip -batch -
listed() { [ "$(rutter show fib -j | json 'x[0]["routes"]')" -gt 131072 ]; }
wait_for 60 listed
assert_ping a $to
router_stop # the taps stay, and the routes

received() { on c awk '$1 == "Ip:" && n++ { print $3 }' /proc/net/snmp; }
before=$(received)
# A tap without its router has no carrier: a itself would say "Unreachable" where the start takes long.
on a ip neighbour replace 10.0.1.1 lladdr "$(mac_of r p0)" dev eth0 nud permanent
background asking ip netns exec "${P}a" ping -n -i 0.002 $to
asking=$last_pid
sleep 0.2
router_spawn
router_ready
wait_for 20 reaches a $to
kill -INT "$asking"
wait_gone "$asking" 50 || fail "ping does not end"
drops=$(rutter show drops -j | json 'sum(d["packets"] for d in x if d["reason"] == "ip4_lookup.not_ready")')
assert_eq "$([ "$drops" -gt 0 ] && echo yes)" yes "packets dropped as not_ready"
assert_no_match "$(cat "$TMP/asking.log")" "Unreachable|prohibited" "what a received"
assert_eq "$(received)" "$before" "packets at c, by the default route"
router_stop
