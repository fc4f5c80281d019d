# VLAN sub-interfaces, one tag and two, of both outer types, beside the untagged interface.
. "$(dirname "$0")/lib.sh"
need ping ethtool python3

host r a b
link a eth0 r v0
link b eth0 r v1 1508 # room for both tags
tagged a eth0 t100 100
tagged b eth0 t7 7 8
on a ip address add 10.1.0.2/24 dev t100
on a ip address add 2001:db8:100::2/64 dev t100 nodad
on a ip route add default via 10.1.0.1
on a ip -6 route add default via 2001:db8:100::1
on b ip address add 10.2.0.2/24 dev t7
on b ip address add 2001:db8:200::2/64 dev t7 nodad
on b ip route add default via 10.2.0.1
on b ip -6 route add default via 2001:db8:200::1
on a ip address add 10.0.1.2/24 dev eth0
tagged b eth0 t9 c9 8 # the outer tag is 0x8100
on b ip address add 10.3.0.2/24 dev t9
on b ip address add 2001:db8:300::2/64 dev t9 nodad
on b ip route add 10.1.0.0/24 via 10.3.0.1 table 9
on b ip rule add from 10.3.0.2 lookup 9
on b ip -6 route add 2001:db8:100::/64 via 2001:db8:300::1 table 9
on b ip -6 rule add from 2001:db8:300::2 lookup 9

{
	two_ports
	cat <<-'END'
		[ports.p0.vlan.100]
		addresses = ["10.1.0.1/24", "2001:db8:100::1/64"]
		[ports.p1.vlan."7.8"]
		addresses = ["10.2.0.1/24", "2001:db8:200::1/64"]
		[ports.p1.vlan."9.8"]
		outer = "0x8100"
		addresses = ["10.3.0.1/24", "2001:db8:300::1/64"]
	END
} | router_start

assert_ping a 10.1.0.1
assert_ping a 10.2.0.2
assert_ping a 2001:db8:200::2
assert_ping b 10.1.0.2
assert_ping b 10.0.1.2 # tagged twice to untagged
assert_no_loss a 10.2.0.2 100
assert_ping a 10.2.0.2 -M do -s 1472
assert_ping a 10.0.1.1 # untagged, beside the tagged

# The other type of outer tag: from the kernel, to it, and through.
assert_ping b 10.3.0.1
assert_ping a 10.3.0.2
assert_ping a 2001:db8:300::2
assert_ping b 10.1.0.2 -I 10.3.0.2
assert_no_loss a 10.3.0.2 100

of() { rutter show interfaces -j | json "next(i['$2'] for i in x if i['name'] == '$1')"; }
assert_eq "$(of p1.7.8 tags), $(of p1.9.8 tags)" "7.8, 9.8 (0x8100)" "tags, and the type of an outer one that is no service tag"
counted=$(of p0.100 rx_packets)
[ "$counted" -ge 100 ] || fail "p0.100 counted $counted packets, 100 came"

# The VLAN numbers of an interface with another type of outer tag are not its own.
tagged b eth0 t78 c7 8
on b ip address add 10.78.0.2/24 dev t78
assert_no_ping b 10.78.0.1
assert_match "$(rutter show drops)" "tag_type" "the type of the tag among the drops"

# A tag that nobody configured is dropped by name.
tagged a eth0 t55 55
on a ip address add 10.55.0.2/24 dev t55
assert_no_ping a 10.55.0.1
assert_match "$(rutter show drops)" "vlan" "unknown VLAN among the drops"
