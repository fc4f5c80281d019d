# A Gatekeeper and a weighted set of two Grantors, BIRD between them. Shares of flows follow the
# weights. One Grantor dies, and the other has all flows within 3.5 s; it comes back, and shares
# follow the weights again.
. "$(dirname "$0")/lib.sh"
. "$SMOKE/defended.sh"

#                               ┌ 31 ─ n ─ 41 ┐
#   c ── 1 ── r ── 21 ── m ─────┤   Grantors  ├ s
#        Gatekeeper      │      └ 32 ─ o ─ 42 ┘ │
#                        └───────── 51 ─────────┘   the way back: it need not pass a Grantor
host c r m
wire 1 r -v0 c eth0
wire 21 r -v1 m w21 1600
clients c 1 1
forwards m
two_grantors

policy=("grant 4096 600" '"10.0.21.1/32", "2001:db8:21::1/128"' "")
grantors_start "${policy[@]}" n o
{
	kernel_routes
	printf 'protocol direct { ipv4; ipv6; }\n'
	neighbour 21 1 65001 "where source = RTS_BGP"
	neighbour 31 2 65021 "$(connected w21)"
	neighbour 32 2 65022 "$(connected w21)"
} | bird_start m 10.0.51.1 65002
{
	printf 'workers = [1]\n'
	port_in p0 v0 1 1
	port_in p1 v1 21 1 "mtu = 1600"
	shield '"10.255.0.1", { to = "10.255.0.2", weight = 3 }' '"2001:db8:ff::1", { to = "2001:db8:ff::2", weight = 3 }'
	cat <<-'CONFIG'
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

# 400 new flows of each family, from clients of their own; a Grantor has its share of them: a quarter of so
# many is hardly ever beyond the limits below. (Of the requests it may have more: a busy one is asked again.)
FLOWS=200
new_flows() { # DESTINATION FROM: asked until each has had an answer
	asking new c "$1" 7 "$2" $FLOWS --rate 4
	assert_match "$(asked new)" "^$FLOWS 0 " "flows, and those never answered"
}
flows_of() { # HOST CLIENTS: of the Grantor whose addresses end so
	local sum=0 client
	for client in "10.9.$2.0/24 grantor 10.255.0.$1" "2001:db8:9:$2::/64 grantor 2001:db8:ff::$1"; do
		# shellcheck disable=SC2086 # three words
		sum=$((sum + $(at r gatekeeper flows -n 0 -j from $client | wc -l)))
	done
	echo $sum
}
all_there() { assert_eq $(($(flows_of 1 "$1") + $(flows_of 2 "$1"))) $((4 * FLOWS)) "flows of clients $1"; }
lost() { grep -c "cannot be reached" "$TMP/r.log" || true; }
made=0 # flows so far
share_of_n() { # CLIENTS …: of the first; others are asked where a busy machine had BFD miss a Grantor meanwhile
	local host clients lost
	for clients in "$@"; do
		wait_for 20 grantors_of r 4
		lost=$(lost)
		for host in 5 6; do
			new_flows 203.0.113.$host "10.9.$clients.1"
			new_flows 2001:db8:71::$host "2001:db8:9:$clients::1"
		done
		wait_for 5 all_there "$clients"
		made=$((made + 4 * FLOWS))
		share=$((100 * $(flows_of 1 "$clients") / (4 * FLOWS)))
		echo "# of the flows of clients $clients the Grantor of weight 1 has $share %"
		[ "$(lost)" != "$lost" ] || break
	done
}
between() { # FOUND LOW HIGH WHAT
	[ "$1" -ge "$2" ] && [ "$1" -le "$3" ] || fail "$4: $1 %, expected $2 to $3 %"
}
share_of_n 1 11 21
between $share 17 33 "the share of weight 1 of 4"

# The Grantor with three quarters dies: granted flows stay granted, and go to the other.
both_ask 2
wait_for 10 all_granted_at $((made + 80)) r
wait_for 10 no_requests_at n
requests=$(counted_by n requests)
dies o
wait_for 10 grantors_of r 2
sleep 1
both_were_served "a Grantor dies"
assert_eq "$(counted_by n requests)" "$requests" "requests of flows that were granted"
n=$requests
new_flows 203.0.113.5 10.9.3.1
[ $(($(counted_by n requests) - n)) -ge $FLOWS ] || fail "not all new flows ask the one that is left"

both_ask 4
grantors_start "${policy[@]}" o
wait_for 40 grantors_of r 4
sleep 1
both_were_served "it comes back"
share_of_n 5 15 25
between $share 17 33 "the share of weight 1 of 4, after its return"
end_well r n o
