# Links, addresses and peers that vanish silently. Routes over them are removed at once.
. "$(dirname "$0")/lib.sh"
need ping ethtool
. "$SMOKE/routing.sh"

two_hosts
station c v2 10.0.3.2/24 10.0.3.1 2001:db8:3::2/64 2001:db8:3::1
for name in b c; do on $name ip address add 10.9.0.1/32 dev lo; done
{
	two_ports
	port p2 v2 10.0.3.1/24 2001:db8:3::1/64
	cat <<-'END'
		[[route]]
		prefix = "10.7.1.0/24"
		via = ["10.0.2.2"]
		[[route]]
		prefix = "2001:db8:7::/48"
		via = ["2001:db8:2::2"]
	END
} | router_start
for i in 1 2 3; do
	on r ip route add 10.8.$i.0/24 via 10.0.2.2
	on r ip route add 2001:db8:80$i::/48 via 2001:db8:2::2
done
on r ip route add 10.9.0.0/24 via 10.0.2.2 metric 10
on r ip route add 10.9.0.0/24 via 10.0.3.2 metric 20
wait_for 5 reaches a 10.9.0.1
wait_for 5 same_as_kernel

has() { rutter show routes | found "$1"; }
has_not() { ! has "$1"; }

# An address is removed, and with it the routes through its network: the kernel sends no message for those.
on r ip address del 10.0.2.1/24 dev p1
wait_for 5 has_not 10.8.1.0/24
wait_for 5 same_as_kernel
wait_for 5 reaches a 10.9.0.1 # the second best
on r ip address add 10.0.2.1/24 dev p1
on r ip route add 10.8.1.0/24 via 10.0.2.2
wait_for 5 has 10.8.1.0/24

# The tap goes down and up.
on r ip link set p1 down
wait_for 5 has_not 10.8.1.0/24
wait_for 5 same_as_kernel
on r ip link set p1 up
on r ip route add 10.8.1.0/24 via 10.0.2.2
wait_for 10 has 10.8.1.0/24
wait_for 10 reaches a 10.0.2.2

# Down and up faster than any poll, and for longer: the router's own settings come back.
ours() {
	on r ip -br address show dev p1 | grep '10.0.2.1/24' | found '2001:db8:2::1/64' &&
		on r ip route show 10.7.1.0/24 | found 'via 10.0.2.2' && on r ip route show 10.7.2.0/24 | found 'via 10.0.2.2' &&
		on r ip -6 route show 2001:db8:7::/48 | found 'via 2001:db8:2::2' &&
		on r ip neighbour show 10.0.2.77 dev p1 | found 02:00:00:00:00:77
}
rutter route add 10.7.2.0/24 via 10.0.2.2
rutter neighbour add 10.0.2.77 --interface p1 --mac 02:00:00:00:00:77
wait_for 5 ours
on r sysctl -qw net.ipv6.conf.p1.keep_addr_on_down=0 net.ipv6.conf.all.keep_addr_on_down=0
for pause in 0 2; do
	on r ip link set p1 down
	sleep $pause
	on r ip link set p1 up
	wait_for 5 ours
done
on r ip address del 10.0.2.1/24 dev p1
sleep 1
! on r ip route show 10.7.1.0/24 | found . || fail "the kernel keeps routes without their address"
on r ip address add 10.0.2.1/24 dev p1
wait_for 5 ours
rutter route del 10.7.2.0/24
on r ip route add 10.8.1.0/24 via 10.0.2.2
wait_for 10 same_as_kernel

# An MTU below the minimum of IPv6 removes IPv6 from a link, which comes back as new: the tap
# forwards again, and the interface below the port does not.
setting() { on r cat "/proc/sys/net/ipv6/conf/$1"; }
before=$(setting p1/forwarding)
for netdev in p1 v1; do
	on r ip link set $netdev mtu 1200
	sleep 0.5
	on r ip link set $netdev mtu 1500
done
off() { [ "$(setting v1/disable_ipv6)" = 1 ] && [ "$(setting p1/forwarding)" = "$before" ]; }
wait_for 5 off
forwards() { [ ! -e /proc/sys/net/ipv6/conf/all/force_forwarding ] || [ "$(setting p1/force_forwarding)" = 1 ]; }
wait_for 5 forwards
wait_for 10 reaches a 2001:db8:2::2
wait_for 10 same_as_kernel

# The wire is removed: the tap loses its carrier, and routing daemons notice.
on b ip link set eth0 down
wait_for 10 sh -c "ip netns exec ${P}r ip link show dev p1 | grep -q NO-CARRIER"
host_up b 10.0.2.1 2001:db8:2::1
wait_for 10 sh -c "! ip netns exec ${P}r ip link show dev p1 | grep -q NO-CARRIER"
wait_for 10 reaches a 10.0.2.2
wait_for 10 same_as_kernel

# The interface below a port is deleted: the same, and it is reported.
on r ip link del v1
wait_for 10 sh -c "ip netns exec ${P}r ip link show dev p1 | grep -q NO-CARRIER"
wait_for 5 sh -c '"$RUTTER" show ports | grep "^p1" | grep -q down'
wait_for 5 grep -q 'port p1: link down: the interface v1 is gone' "$TMP/rutter.log"
router_stop
