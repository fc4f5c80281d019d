# Two hosts reach each other through the router, by IPv4 and IPv6, and by no other path.
. "$(dirname "$0")/lib.sh"
need ping ethtool python3

two_hosts
assert_no_ping a 10.0.2.2
assert_no_ping a 2001:db8:2::2

two_ports | router_start
before=$(kernel_forwarded r)
assert_ping a 10.0.2.2 -c 1
for host in 10.0.1.2 10.0.2.2; do wait_for 5 known $host; done
assert_ping a 2001:db8:2::2 -c 1
for host in 2001:db8:1::2 2001:db8:2::2; do wait_for 5 known $host; done
assert_ping a 10.0.2.2
assert_ping a 2001:db8:2::2
assert_ping b 10.0.1.2
assert_ping a 10.0.1.1
assert_ping a 2001:db8:1::1
assert_ping a 10.0.2.1
assert_no_loss a 10.0.2.2 200
assert_no_loss a 2001:db8:2::2 200
assert_ping a 10.0.2.2 -s 1472 -M do
assert_ping a 2001:db8:2::2 -s 1452 -M do
assert_ping a 10.0.2.2 -s 1 -p ff

# Of more than 800 packets the kernel may have forwarded only those that waited for a neighbour.
assert_at_most $(($(kernel_forwarded r) - before)) 12 "packets forwarded by the kernel"

# Every packet is accounted for: at rest nothing is missing.
balanced() {
	assert_eq "$(rutter show system -j | json '
		(lambda a: a["received"] + a["from_kernel"] + a["from_workers"] + a["copies"]
		 - a["transmitted"] - a["punted"] - a["handed_over"] - a["dropped"] - a["held"])(x["accounting"])')" 0 "packets not accounted for"
}
wait_for 5 balanced

# The netdevs under the ports stay silent by themselves.
for netdev in v0 v1; do
	assert_eq "$(on r ip -o address show dev $netdev scope global)" "" "addresses of $netdev"
done

router_stop
assert_no_ping a 10.0.2.2
assert_no_ping a 2001:db8:2::2
