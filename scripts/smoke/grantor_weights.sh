# A Gatekeeper and a weighted set of two Grantors, BIRD between them. Shares of flows follow the
# weights. One Grantor dies, and the other has all flows within 3.5 s; it comes back, and shares
# follow the weights again.
. "$(dirname "$0")/lib.sh"
. "$SMOKE/defended.sh"

#                               ┌ 31 ─ n ─ 41 ┐
#   c ── 1 ── r ── 21 ── m ─────┤   Grantors  ├ s
#        Gatekeeper      │      └ 32 ─ o ─ 42 ┘ │
#                        └───────── 51 ─────────┘   the way back: it need not pass a Grantor
host c r m n o s
wire 1 r -v0 c eth0
wire 21 r -v1 m w21 1600
wire 31 m w31 n -v0 1600
wire 32 m w32 o -v0 1600
wire 41 n -v1 s w41
wire 42 o -v1 s w42
wire 51 m w51 s w51
clients c 1 1
protected s
on s ip route add default via 10.0.51.1
on s ip -6 route add default via 2001:db8:51::1
forwards m

grantor() { # NS ITS-NETWORK SERVER-NETWORK NUMBER
	{
		printf 'workers = [%s]\n' $(($4 - 1))
		port_in p0 v0 "$2" 2 "mtu = 1600"
		port_in p1 v1 "$3" 1
		cat <<-CONFIG
			[grantor]
			gatekeepers = ["10.0.21.1/32", "2001:db8:21::1/128"]
			serves = ["203.0.113.0/24", "2001:db8:71::/48"]
			policy = "grant 4096 600"
			[[route]]
			prefix = "203.0.113.0/24"
			via = "10.0.$3.2"
			[[route]]
			prefix = "2001:db8:71::/48"
			via = "2001:db8:$3::2"
		CONFIG
	} | daemon_start "$1"
	{
		kernel_routes
		printf 'protocol direct { ipv4; ipv6; interface "lo"; }\n'
		neighbour "$2" 1 65002 "$(connected lo)"
	} | bird_start "$1" "10.0.$2.2" "6501$4"
}
for at in n:1 o:2; do # what a Grantor is asked by is announced while it is there
	on "${at%:*}" ip address add "10.255.0.${at#*:}/32" dev lo
	on "${at%:*}" ip address add "2001:db8:ff::${at#*:}/128" dev lo
done
grantor n 31 41 1
grantor o 32 42 2
{
	kernel_routes
	printf 'protocol direct { ipv4; ipv6; }\n'
	neighbour 21 1 65001 "where source = RTS_BGP"
	neighbour 31 2 65011 "$(connected w21)"
	neighbour 32 2 65012 "$(connected w21)"
} | bird_start m 10.0.51.1 65002
{
	printf 'workers = [1]\n'
	port_in p0 v0 1 1
	port_in p1 v1 21 1 "mtu = 1600"
	cat <<-'CONFIG'
		[gatekeeper]
		front = ["p0"]
		back = ["p1"]
		entries = 65536
		[[gatekeeper.protect]]
		prefix = "203.0.113.0/24"
		grantors = ["10.255.0.1", { to = "10.255.0.2", weight = 3 }]
		[[gatekeeper.protect]]
		prefix = "2001:db8:71::/48"
		grantors = ["2001:db8:ff::1", { to = "2001:db8:ff::2", weight = 3 }]
		[[route]]
		prefix = "10.9.0.0/16"
		via = "10.0.1.2"
		[[route]]
		prefix = "2001:db8:9::/48"
		via = "2001:db8:1::2"
	CONFIG
} | daemon_start r
{
	kernel_routes
	printf 'protocol static own4 { ipv4; route 10.9.0.0/16 blackhole; }\n'
	printf 'protocol static own6 { ipv6; route 2001:db8:9::/48 blackhole; }\n'
	neighbour 21 2 65002 "where source = RTS_STATIC"
} | bird_start r 10.0.21.1 65001
wait_for 40 grantors_of r 4
wait_for 20 has_way m 10.9.0.0/16 2001:db8:9::/48

# 200 new flows of each family, from clients of their own; a Grantor's requests grow by its share.
FLOWS=200
shares() { # CLIENTS
	local n o
	n=$(counted_by n requests) o=$(counted_by o requests)
	on c python3 "$SMOKE/pairs.py" ask 203.0.113.5 7 "10.9.$1.1" $FLOWS --rate 4 --for 3 >"$TMP/four" 2>/dev/null
	on c python3 "$SMOKE/pairs.py" ask 2001:db8:71::5 7 "2001:db8:9:$1::1" $FLOWS --rate 4 --for 3 >"$TMP/six" 2>/dev/null
	for family in four six; do assert_match "$(cat "$TMP/$family")" "^$FLOWS 0 " "flows, and those never answered"; done
	n=$(($(counted_by n requests) - n)) o=$(($(counted_by o requests) - o))
	[ $((n + o)) -ge $((2 * FLOWS)) ] || fail "$n + $o requests of $((2 * FLOWS)) flows"
	echo $((100 * n / (n + o)))
}
between() { # FOUND LOW HIGH WHAT
	[ "$1" -ge "$2" ] && [ "$1" -le "$3" ] || fail "$4: $1 %, expected $2 to $3 %"
}
between "$(shares 1)" 17 33 "the share of weight 1 of 4"

# The Grantor with three quarters dies: granted flows stay granted, and go to the other.
asking four c 203.0.113.5 7 10.9.2.1 40
asking six c 2001:db8:71::5 7 2001:db8:9:2::1 40
served() { # WHILE WHAT
	local name flows never silence
	for name in four six; do
		asked $name | read -r flows never silence
		echo "# $1: the longest silence of a flow of family $name: $silence ms"
		assert_eq "$flows $never" "40 0" "flows of family $name, and those that were never answered"
		assert_at_most "$silence" $((3500 * PATIENCE)) "ms without an answer while $1"
	done
}
wait_for 10 all_granted_at $((2 * FLOWS + 80)) r
wait_for 10 no_requests_at n
requests=$(counted_by n requests)
dies o
wait_for 10 grantors_of r 2
sleep 3
served "a Grantor dies"
assert_eq "$(counted_by n requests)" "$requests" "requests of flows that were granted"
n=$requests
on c python3 "$SMOKE/pairs.py" ask 203.0.113.5 7 10.9.3.1 $FLOWS --rate 4 --for 3 >"$TMP/four" 2>/dev/null
assert_match "$(cat "$TMP/four")" "^$FLOWS 0 " "flows, and those never answered"
[ $(($(counted_by n requests) - n)) -ge $FLOWS ] || fail "not all new flows ask the one that is left"

asking four c 203.0.113.5 7 10.9.4.1 40
asking six c 2001:db8:71::5 7 2001:db8:9:4::1 40
grantor o 32 42 2
wait_for 40 grantors_of r 4
sleep 1
served "it comes back"
between "$(shares 5)" 17 33 "the share of weight 1 of 4, after its return"
for name in r n o; do
	kill -TERM "${daemon_of[$name]}"
	wait_gone "${daemon_of[$name]}" 200 || fail "$name does not end on SIGTERM"
done
