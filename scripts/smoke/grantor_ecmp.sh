# Two Gatekeepers behind equal paths, one Grantor, BIRD between them all. One Gatekeeper dies: the
# other has its flows granted again within 3.5 s, the time of two lost SYNs. It comes back, and so
# do its flows.
. "$(dirname "$0")/lib.sh"
. "$SMOKE/defended.sh"

#                     ┌─ 11 ─ r ─ 21 ─┐
#   c ── 1 ── e: ECMP ┤  Gatekeepers  ├ m ── 31 ── n ── 41 ── s
#                     └─ 12 ─ q ─ 22 ─┘         Grantor
host c e r q m n s
wire 1 e w1 c eth0
wire 11 e w11 r -v0
wire 12 e w12 q -v0
wire 21 r -v1 m w21 1600
wire 22 q -v1 m w22 1600
wire 31 m w31 n -v0 1600
wire 41 n -v1 s eth0
clients c 1 1
on e ip route add 10.9.0.0/16 via 10.0.1.2
on e ip -6 route add 2001:db8:9::/48 via 2001:db8:1::2
protected s
on s ip route add default via 10.0.41.1
on s ip -6 route add default via 2001:db8:41::1
forwards e
forwards m

gatekeeper() { # NS FRONT BACK WORKER
	{
		printf 'workers = [%s]\n' "$4"
		port_in p0 v0 "$2" 2
		port_in p1 v1 "$3" 1 "mtu = 1600"
		cat <<-CONFIG
			[gatekeeper]
			front = ["p0"]
			back = ["p1"]
			entries = 65536
			withdraw = true
			[[gatekeeper.protect]]
			prefix = "203.0.113.0/24"
			grantors = ["10.0.31.2"]
			[[gatekeeper.protect]]
			prefix = "2001:db8:71::/48"
			grantors = ["2001:db8:31::2"]
		CONFIG
	} | daemon_start "$1"
}
gatekeeper_bird() { # NS FRONT BACK ASN
	{
		kernel_routes
		neighbour "$2" 1 65001 "where source = RTS_INHERIT"
		neighbour "$3" 2 65002 "where source = RTS_BGP"
	} | bird_start "$1" "10.0.$2.2" "$4"
}
gatekeepers_start() { # NS …
	local name
	for name in "$@"; do
		case $name in
		r) gatekeeper r 11 21 0 && gatekeeper_bird r 11 21 65011 ;;
		q) gatekeeper q 12 22 1 && gatekeeper_bird q 12 22 65012 ;;
		esac
	done
}

{
	printf 'workers = [0]\n'
	port_in p0 v0 31 2 "mtu = 1600"
	port_in p1 v1 41 1
	cat <<-'CONFIG'
		[grantor]
		gatekeepers = ["10.0.21.1/32", "10.0.22.1/32", "2001:db8:21::1/128", "2001:db8:22::1/128"]
		serves = ["203.0.113.0/24", "2001:db8:71::/48"]
		policy = "grant 4096 600"
		[[route]]
		prefix = "203.0.113.0/24"
		via = "10.0.41.2"
		[[route]]
		prefix = "2001:db8:71::/48"
		via = "2001:db8:41::2"
	CONFIG
} | daemon_start n
{
	kernel_routes
	neighbour 31 1 65002 none
} | bird_start n 10.0.31.2 65003
{
	kernel_routes
	printf 'protocol direct { ipv4; ipv6; }\n'
	neighbour 21 1 65011 "$(connected w31)"
	neighbour 22 1 65012 "$(connected w31)"
	neighbour 31 2 65003 "filter { if source = RTS_BGP || ifname = \"w21\" || ifname = \"w22\" then accept; reject; }"
} | bird_start m 10.0.31.1 65002
{
	kernel_routes
	printf 'protocol static own4 { ipv4; route 10.9.0.0/16 blackhole; }\n'
	printf 'protocol static own6 { ipv6; route 2001:db8:9::/48 blackhole; }\n'
	neighbour 11 2 65011 "where source = RTS_STATIC"
	neighbour 12 2 65012 "where source = RTS_STATIC"
} | bird_start e 10.0.1.1 65001
gatekeepers_start r q

equal_paths() { # COUNT: to what is protected, and back
	local ns prefix
	for ns in e:203.0.113.0/24 e:2001:db8:71::/48 m:10.9.0.0/16 m:2001:db8:9::/48; do
		prefix=${ns#*:}
		case $prefix in *:*) family=-6 ;; *) family=-4 ;; esac
		[ "$(on "${ns%%:*}" ip $family -j route show "$prefix" proto bird | json \
			"sum(len(r.get('nexthops', [0])) for r in x)")" = "$1" ] || return 1
	done
}
wait_for 40 equal_paths 2
wait_for 20 has_way n 10.9.0.0/16

four=(203.0.113.5 7 10.9.0.1 40) six=(2001:db8:71::5 7 2001:db8:9::1 40)
both_ask() {
	asking four c "${four[@]}"
	asking six c "${six[@]}"
}
both_were_served() { # WHILE WHAT
	local name flows never silence
	for name in four six; do
		asked $name | read -r flows never silence
		assert_eq "$flows $never" "40 0" "flows of family $name, and those that were never answered"
		echo "# $1: the longest silence of a flow of family $name: $silence ms"
		assert_at_most "$silence" $((3500 * PATIENCE)) "ms without an answer while $1"
	done
}

both_ask
wait_for 10 all_granted_at 80 r q
for name in r q; do
	# Each Gatekeeper has its share of 80 pairs; a fair division leaves neither with as few as 10.
	[ "$(granted_at $name)" -ge 10 ] || fail "$name has $(granted_at $name) granted flows of 80"
done

dies r
sleep 5
all_granted_at 80 q
both_were_served "one Gatekeeper dies"
[ "$(counted_by n "requests")" -gt 80 ] || fail "nobody asked again"

both_ask
gatekeepers_start r
wait_for 40 equal_paths 2
some_at_r() { [ "$(granted_at r)" -ge 10 ]; }
wait_for 10 some_at_r
sleep 1
both_were_served "it comes back"
for name in r q n; do
	kill -TERM "${daemon_of[$name]}"
	wait_gone "${daemon_of[$name]}" 200 || fail "$name does not end on SIGTERM"
done
