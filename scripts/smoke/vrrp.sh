# VRRP by keepalived with addresses of its own (`use_vmac`), unmodified: a pair of routers with
# one gateway for the hosts on both sides, which fails over and back.
. "$(dirname "$0")/lib.sh"
need ping ethtool keepalived python3
host r q sw a b
on r sh -c 'ip link add name x type veth peer name y && ip link add name try0 link x type macvlan' 2>/dev/null ||
	skip "the kernel has no macvlans"
on r ip link del x

#   a 10.0.1.2 ── lan ─┬─ v0 r v1 ─┬─ up ── b 10.0.2.2        the gateways: .254, ::fe
#                      └─ v0 q v1 ─┘
# Both networks are bridges of a third router's, for want of any in some kernels.
for wire in "r v0 w0" "q v0 w1" "a eth0 w2" "r v1 w3" "q v1 w4" "b eth0 w5"; do
	read -r ns interface end <<<"$wire"
	link "$ns" "$interface" sw "$end"
done
{
	for n in 0 1 2 3 4 5; do printf '[ports.w%d]\ndevice = "%s"\n' $n "$(device $n w$n)"; done
	printf '[bridge.lan]\nports = ["w0", "w1", "w2"]\n[bridge.up]\nports = ["w3", "w4", "w5"]\n'
} >"$TMP/sw.toml"
RUTTER_SOCKET=$TMP/sw.sock background sw ip netns exec "${P}sw" "$RUTTER" run --config "$TMP/sw.toml"
on a ip address add 10.0.1.2/24 dev eth0
on a ip route add default via 10.0.1.254
on a ip address add 2001:db8:1::2/64 dev eth0 nodad
on a ip -6 route add default via 2001:db8:1::fe
on b ip address add 10.0.2.2/24 dev eth0
on b ip route add default via 10.0.2.254
on b ip address add 2001:db8:2::2/64 dev eth0 nodad
on b ip -6 route add default via 2001:db8:2::fe

keepalived_on() { # NS PRIORITY
	instance() { # NAME INTERFACE ID ADDRESSES
		cat <<-END
			vrrp_instance $1 {
				state BACKUP
				interface $2
				use_vmac vr.$1
				virtual_router_id $3
				priority $priority
				advert_int 0.2
				virtual_ipaddress {
					$4
				}
			}
		END
	}
	local priority=$2
	{
		echo "global_defs { vrrp_version 3 }"
		echo "vrrp_sync_group all { group { lan up lan6 up6 } }"
		instance lan p0 51 10.0.1.254/32
		instance up p1 52 10.0.2.254/32
		instance lan6 p0 51 "fe80::5e:51
					2001:db8:1::fe"
		instance up6 p1 52 "fe80::5e:52
					2001:db8:2::fe"
	} >"$TMP/keepalived.$1"
	background "keepalived-$1" ip netns exec "$P$1" keepalived -n -l -P -f "$TMP/keepalived.$1" \
		-p "$TMP/keepalived.$1.pid" -r "$TMP/vrrp.$1.pid"
}

on_q() { RUTTER_SOCKET=$TMP/q.sock "$@"; }
q_ready() { on_q rutter show system; }
{
	port p0 v0 10.0.1.7/24 2001:db8:1::7/64
	port p1 v1 10.0.2.7/24 2001:db8:2::7/64
} >"$TMP/q.toml"
RUTTER_SOCKET=$TMP/q.sock background q ip netns exec "${P}q" "$RUTTER" run --config "$TMP/q.toml"
two_ports | router_start
wait_for 30 q_ready

keepalived_on r 150
keepalived_on q 100

# Who has the gateway of a's network.
is_master() { on "$1" ip -br address show dev vr.lan | found 10.0.1.254; }
wait_for 20 is_master r
wait_for 10 reaches a 10.0.2.2
wait_for 10 reaches a 2001:db8:2::2
# (Linux answers ARP for an address of another of its links, too: IPv6's macvlan may be faster.)
assert_match "$(on a ip neighbour show 10.0.1.254)" "00:00:5e:00:0[12]:33" "the gateway's hardware address"
assert_match "$(on a ip -6 neighbour show 2001:db8:1::fe)" "00:00:5e:00:02:33" "that of IPv6"
assert_ping a 10.0.1.254
assert_ping a 2001:db8:1::fe
assert_match "$(rutter show interfaces)" "p0 .*10.0.1.254" "the interface's addresses"

# The data plane forwards it, not the kernel.
punted() { rutter show interfaces -j | json "next(i['punted'] for i in x if i['name'] == 'p0')"; }
before=$(punted)
assert_no_loss a 10.0.2.2 200
assert_at_most $(($(punted) - before)) 60 "packets of 200 that the kernel was given"
# What the kernel has to do for hosts comes in by the macvlan: an error, a resolution.
assert_told a 10.0.2.77 "From 10.0.1.(1|254) .*Destination Host Unreachable" "no such host" -W 5
on r ip neighbour flush dev p1
wait_for 10 reaches a 10.0.2.2

# The master is gone at once: the other one takes over.
router_kill
wait_for 10 is_master q
wait_for 10 reaches a 10.0.2.2
wait_for 10 reaches a 2001:db8:2::2

# It comes back, and takes its macvlans up again.
router_start
no_master() { ! is_master "$1"; }
wait_for 20 no_master q
wait_for 10 reaches a 10.0.2.2
wait_for 10 reaches a 2001:db8:2::2
before=$(punted)
assert_no_loss a 10.0.2.2 200
assert_at_most $(($(punted) - before)) 60 "packets of 200 that the kernel was given"

# Without keepalived nobody has the address.
kill -TERM "$(cat "$TMP/keepalived.r.pid")"
wait_for 10 is_master q
wait_for 10 reaches a 10.0.2.2
on_q rutter show interfaces | found 10.0.1.254 || fail "the other one has no gateway's address"
