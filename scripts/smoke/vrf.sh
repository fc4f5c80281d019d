# Two VRFs with the same addresses, and no way between them.
. "$(dirname "$0")/lib.sh"
need ping ethtool

two_hosts
station c v2 10.0.1.2/24 10.0.1.1 2001:db8:1::2/64 2001:db8:1::1
station d v3 10.0.2.2/24 10.0.2.1 2001:db8:2::2/64 2001:db8:2::1
on d ip address add 10.0.9.9/32 dev lo
{
	two_ports
	port p2 v2 10.0.1.1/24 2001:db8:1::1/64 'vrf = "blue"'
	port p3 v3 10.0.2.1/24 2001:db8:2::1/64 'vrf = "blue"'
	cat <<-'END'
		[vrf.blue]
		table = 100
		[[route]]
		prefix = "10.0.9.0/24"
		via = ["10.0.2.2"]
		vrf = "blue"
	END
} | router_start

assert_ping a 10.0.2.2
assert_ping a 2001:db8:2::2
assert_ping c 10.0.2.2
assert_ping c 2001:db8:2::2
assert_ping c 10.0.9.9
assert_no_ping a 10.0.9.9 # known in blue only
assert_ping a 10.0.1.1
# Without VRF devices the kernel knows one set of own addresses, and answers by main.
if on r ip link add vrf-try type vrf table 99 2>/dev/null; then
	on r ip link del vrf-try
	assert_ping c 10.0.1.1
fi

# Same address, different hosts.
before=$(on d cat /sys/class/net/eth0/statistics/rx_packets)
assert_no_loss a 10.0.2.2 50
after=$(on d cat /sys/class/net/eth0/statistics/rx_packets)
assert_at_most $((after - before)) 10 "packets of main that reached blue"
