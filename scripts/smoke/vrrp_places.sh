# VRRP by keepalived where an interface is not a plain port: in a VRF by rules, over a VLAN, over a
# bridge's routed interface. A pair fails over and back in each.
. "$(dirname "$0")/lib.sh"
need ping ethtool keepalived python3
. "$SMOKE/pair.sh"
host a b c d

#   a 10.0.1.2 ──── v0 ─┬─ r, q ─┬─ v1 ──── b 10.0.2.2     VRF blue
#   c 10.0.3.2 ─ 100 v2 ┘        └─ v3 lan ─ d 10.0.4.2     main: a VLAN, a bridge
shared a r v0 q v0 a eth0
shared b r v1 q v1 b eth0
shared c r v2 q v2 c eth0
shared d r v3 q v3 d eth0
switch_start
tagged c eth0 t100 100
n=0
for end in "a eth0" "b eth0" "c t100" "d eth0"; do
	read -r ns interface <<<"$end"
	n=$((n + 1))
	on "$ns" ip address add "10.0.$n.2/24" dev "$interface"
	on "$ns" ip route add default via "10.0.$n.254"
	on "$ns" ip address add "2001:db8:$n::2/64" dev "$interface" nodad
	on "$ns" ip -6 route add default via "2001:db8:$n::fe"
done

places() { # LAST BYTE OF THE ADDRESSES
	local n
	for n in 0 1; do
		port p$n v$n "10.0.$((n + 1)).$1/24" "2001:db8:$((n + 1))::$1/64" 'vrf = "blue"'
	done
	port p2 v2 "" ""
	port p3 v3 "" ""
	cat <<-END
		[ports.p2.vlan.100]
		addresses = ["10.0.3.$1/24", "2001:db8:3::$1/64"]
		[bridge.lan]
		ports = ["p3"]
		addresses = ["10.0.4.$1/24", "2001:db8:4::$1/64"]
		[vrf.blue]
		table = 100
	END
}

instances() { # PRIORITY
	local n=0 interface
	echo "vrrp_sync_group all { group { v1 v2 v3 v4 w1 w2 w3 w4 } }"
	for interface in p0 p1 p2.100 lan; do
		n=$((n + 1))
		vrrp_instance "$1" v$n "$interface" "5$n" "10.0.$n.254/32"
		vrrp_instance "$1" w$n "$interface" "5$n" "fe80::5e:5$n
			2001:db8:$n::fe"
	done
}

places 7 | q_start
places 1 | router_start
instances 150 | keepalived_on r
instances 100 | keepalived_on q

master() { # NS: it has all gateways
	local n
	for n in 1 2 3 4; do has_address "$1" vr.v$n "10.0.$n.254"; done
}
all_pass() {
	wait_for 15 reaches a 10.0.2.2
	wait_for 15 reaches b 2001:db8:1::2
	wait_for 15 reaches c 10.0.4.2
	wait_for 15 reaches d 2001:db8:3::2
}
wait_for 20 master r
all_pass
n=0
for end in "a eth0" "b eth0" "c t100" "d eth0"; do
	read -r ns interface <<<"$end"
	n=$((n + 1))
	assert_match "$(on "$ns" ip -6 neighbour show "2001:db8:$n::fe")" "00:00:5e:00:02:3$((n + 2))" "the gateway's hardware address"
	assert_ping "$ns" "10.0.$n.254"
	assert_ping "$ns" "2001:db8:$n::fe"
done
assert_no_ping a 10.0.4.2 # another VRF's
assert_no_ping c 10.0.2.2
assert_match "$(on r ip rule)" "iif vr.v1 lookup (100|blue)" "the macvlan's rule"
assert_match "$(on r ip -6 rule)" "iif vr.w2 lookup (100|blue)" "the macvlan's rule"

# The data plane forwards it, not the kernel.
punted() { rutter show interfaces -j | json "sum(i['punted'] for i in x)"; }
for way in "a 10.0.2.2" "c 10.0.4.2" "d 10.0.3.2"; do
	read -r ns to <<<"$way"
	forwards_all "$ns" "$to" 100
done

router_kill
wait_for 10 master q
all_pass
router_start
wait_for 20 master r
all_pass
