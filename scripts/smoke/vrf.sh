# Two VRFs with the same addresses, and no way between them.
. "$(dirname "$0")/lib.sh"
need ping ethtool traceroute python3

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
on r ip route add 10.0.8.0/24 via 10.0.2.2 # known in main only: no way from blue
on b ip address add 10.0.8.8/32 dev lo
assert_ping a 10.0.8.8
echoes() { on b grep '^Icmp: [0-9]' /proc/net/snmp | cut -d ' ' -f 10; }
before=$(echoes)
assert_no_ping c 10.0.8.8
assert_eq "$(echoes)" "$before" "requests of blue that the kernel let into main"
# The kernel answers by the tables of the interface that was asked, with VRF devices or without:
# both VRFs have these addresses, and each resolves neighbours for itself, at the same time.
own_addresses() {
	on a ping -q -n -c 20 -i 0.05 -W 2 10.0.1.1 >"$TMP/a.log" &
	local other=$!
	assert_ping c 10.0.1.1
	assert_no_loss c 10.0.1.1 20
	wait $other || fail "main's own address: $(cat "$TMP/a.log")"
	assert_ping a 2001:db8:1::1
	assert_ping c 2001:db8:1::1
	assert_ping d 10.0.2.1
	assert_way "the way in blue" '^ 1 +10\.0\.1\.1 ' '^ 2 +10\.0\.2\.2 ' -- c traceroute -n -q 1 -w 2 10.0.2.2
}
own_addresses

# The same address belongs to different hosts.
before=$(on d cat /sys/class/net/eth0/statistics/rx_packets)
assert_no_loss a 10.0.2.2 50
after=$(on d cat /sys/class/net/eth0/statistics/rx_packets)
assert_at_most $((after - before)) 10 "packets of main that reached blue"
