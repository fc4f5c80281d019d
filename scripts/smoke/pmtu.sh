# Path MTU discovery across a smaller link; fragments where they are allowed.
. "$(dirname "$0")/lib.sh"
need ping tracepath ethtool

two_hosts
on r ip link set v1 mtu 1400
on b ip link set eth0 mtu 1400
{
	port p0 v0 10.0.1.1/24 2001:db8:1::1/64
	port p1 v1 10.0.2.1/24 2001:db8:2::1/64 "mtu = 1400"
} | router_start
assert_ping a 10.0.2.2
assert_ping a 2001:db8:2::2

assert_ping a 10.0.2.2 -M do -s 1372
assert_told a 10.0.2.2 "mtu ?= ?1400" "fragmentation needed" -M do -s 1373
assert_ping a 2001:db8:2::2 -M do -s 1352
assert_told a 2001:db8:2::2 "mtu ?[=:] ?1400" "packet too big" -M do -s 1353

on a ip route flush cache
on a ip -6 route flush cache
assert_way "tracepath" "pmtu 1400 hops 2" -- a tracepath -4 -n 10.0.2.2
assert_way "tracepath, IPv6" "pmtu 1400 hops 2" -- a tracepath -6 -n 2001:db8:2::2

# Without "don't fragment" the router fragments; the host behind reassembles.
on a ip route flush cache
assert_ping a 10.0.2.2 -M dont -s 1472
# Fragments of the sender pass as they are. Not over net_af_packet: its fan-out makes the kernel
# join IPv4 fragments, up to the size of its frames.
assert_ping a 2001:db8:2::2 -s 4000
case $(device 0 v0) in
net_af_packet*) ;;
*) assert_ping a 10.0.2.2 -M dont -s 4000 ;;
esac

# A route's own MTU counts, as in the kernel: for IPv6 only if it is locked.
on a ip route flush cache
on a ip -6 route flush cache
on b ip address add 10.9.1.1/32 dev lo
on b ip address add 2001:db8:9::1/128 dev lo
on r ip route add 10.9.1.0/24 via 10.0.2.2 mtu 1300
on r ip -6 route add 2001:db8:9::/48 via 2001:db8:2::2 mtu lock 1290
wait_for 5 reaches a 10.9.1.1
wait_for 5 reaches a 2001:db8:9::1
assert_match "$(rutter show routes)" "10.9.1.0/24 .* mtu 1300" "the route's MTU"
assert_ping a 10.9.1.1 -M do -s 1272
assert_told a 10.9.1.1 "mtu ?= ?1300" "fragmentation needed" -M do -s 1273
assert_ping a 2001:db8:9::1 -M do -s 1242
assert_told a 2001:db8:9::1 "mtu ?[=:] ?1290" "packet too big" -M do -s 1243
# The route by the same neighbour without an MTU is as wide as before; the hosts of a network have
# the MTU of the route to it.
assert_ping a 10.0.2.2 -M do -s 1372
on r ip route change 10.0.2.0/24 dev p1 proto kernel scope link src 10.0.2.1 mtu 1350
wait_for 5 sh -c '"$RUTTER" show routes | grep -q "10.0.2.0/24 .* mtu 1350"'
assert_told a 10.0.2.2 "mtu ?= ?1350" "fragmentation needed" -M do -s 1323
