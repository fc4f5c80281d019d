# VRRP by unmodified keepalived with addresses of its own (`use_vmac`): a pair of routers with one
# gateway for the hosts on both sides, which fails over and back.
. "$(dirname "$0")/lib.sh"
need ping ethtool keepalived python3
. "$SMOKE/pair.sh"
host a b

#   a 10.0.1.2 ── lan ─┬─ v0 r v1 ─┬─ up ── b 10.0.2.2        the gateways: .254, ::fe
#                      └─ v0 q v1 ─┘
shared lan r v0 q v0 a eth0
shared up r v1 q v1 b eth0
switch_start
on a ip address add 10.0.1.2/24 dev eth0
on a ip route add default via 10.0.1.254
on a ip address add 2001:db8:1::2/64 dev eth0 nodad
on a ip -6 route add default via 2001:db8:1::fe
on b ip address add 10.0.2.2/24 dev eth0
on b ip route add default via 10.0.2.254
on b ip address add 2001:db8:2::2/64 dev eth0 nodad
on b ip -6 route add default via 2001:db8:2::fe

instances() { # PRIORITY
	echo "vrrp_sync_group all { group { lan up lan6 up6 } }"
	vrrp_instance "$1" lan p0 51 10.0.1.254/32
	vrrp_instance "$1" up p1 52 10.0.2.254/32
	vrrp_instance "$1" lan6 p0 51 "fe80::5e:51
			2001:db8:1::fe"
	vrrp_instance "$1" up6 p1 52 "fe80::5e:52
			2001:db8:2::fe"
}

{
	port p0 v0 10.0.1.7/24 2001:db8:1::7/64
	port p1 v1 10.0.2.7/24 2001:db8:2::7/64
} | q_start
two_ports | router_start
instances 150 | keepalived_on r
instances 100 | keepalived_on q

# The router that has the gateway of a's network.
is_master() { has_address "$1" vr.lan 10.0.1.254; }
wait_for 20 is_master r
wait_for 10 reaches a 10.0.2.2
wait_for 10 reaches a 2001:db8:2::2
# (Linux also answers ARP for an address of another of its links: IPv6's macvlan may be faster.)
assert_match "$(on a ip neighbour show 10.0.1.254)" "00:00:5e:00:0[12]:33" "the gateway's hardware address"
assert_match "$(on a ip -6 neighbour show 2001:db8:1::fe)" "00:00:5e:00:02:33" "that of IPv6"
assert_ping a 10.0.1.254
assert_ping a 2001:db8:1::fe
assert_match "$(rutter show interfaces)" "p0 .*10.0.1.254" "the interface's addresses"

# The data plane forwards it, not the kernel.
punted() { rutter show interfaces -j | json "next(i['punted'] for i in x if i['name'] == 'p0')"; }
forwards_all a 10.0.2.2 60
# The kernel's packets for hosts come in by the macvlan: an error, a resolution.
assert_told a 10.0.2.77 "From 10.0.1.(1|254) .*Destination Host Unreachable" "no such host" -W 5
on r ip neighbour flush dev p1
wait_for 10 reaches a 10.0.2.2

# The master is gone at once: the other router takes over.
router_kill
wait_for 10 is_master q
wait_for 10 reaches a 10.0.2.2
wait_for 10 reaches a 2001:db8:2::2

# The master comes back, and sets its macvlans up again.
router_start
no_master() { ! is_master "$1"; }
wait_for 20 no_master q
wait_for 10 reaches a 10.0.2.2
wait_for 10 reaches a 2001:db8:2::2
forwards_all a 10.0.2.2 60

# Without keepalived nobody has the address.
kill -TERM "$(cat "$TMP/keepalived.r.pid")"
wait_for 10 is_master q
wait_for 10 reaches a 10.0.2.2
on_q rutter show interfaces | found 10.0.1.254 || fail "the other one has no gateway's address"
