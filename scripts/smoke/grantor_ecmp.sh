# Two Gatekeepers behind equal paths, one Grantor, BIRD between them all. One Gatekeeper dies: the
# other has its flows granted again within 3.5 s, the time of two lost SYNs. It comes back, and so
# do its flows.
. "$(dirname "$0")/lib.sh"
. "$SMOKE/defended.sh"

#                     ┌─ 11 ─ r ─ 21 ─┐
#   c ── 1 ── e: ECMP ┤  Gatekeepers  ├ m ── 31 ── n ── 41 ── s
#                     └─ 12 ─ q ─ 22 ─┘         Grantor
two_gatekeepers
host n s
wire 31 m w31 n -v0 1600
wire 41 n -v1 s eth0
protected s
on s ip route add default via 10.0.41.1
on s ip -6 route add default via 2001:db8:41::1

grantors=('"10.0.31.2"' '"2001:db8:31::2"')
grantor n 31 41 0 "grant 4096 600" '"10.0.21.1/32", "10.0.22.1/32", "2001:db8:21::1/128", "2001:db8:22::1/128"'
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
provider_start
gatekeepers_start "${grantors[@]}" r q
wait_for 40 equal_paths 2
wait_for 20 has_way n 10.9.0.0/16

both_ask 0
wait_for 10 all_granted_at 80 r q
for name in r q; do
	# Each Gatekeeper has its share of 80 pairs; a fair division leaves neither with as few as 10.
	[ "$(granted_at $name)" -ge 10 ] || fail "$name has $(granted_at $name) granted flows of 80"
done

dies r
wait_for 10 all_granted_at 80 q
sleep 0.5
both_were_served "one Gatekeeper dies"
[ "$(counted_by n "requests")" -gt 80 ] || fail "nobody asked again"

both_ask 0
gatekeepers_start "${grantors[@]}" r
wait_for 40 equal_paths 2
some_at_r() { [ "$(granted_at r)" -ge 10 ]; }
wait_for 10 some_at_r
sleep 1
both_were_served "it comes back"
end_well r q n
