# The back of a shield has no room for the outer header: whose packet does not fit is told which
# length would, packets of that length pass, and log and doctor advise a larger MTU. Of a router behind
# the back that has less room, no source hears; but its errors are counted and reported.
. "$(dirname "$0")/lib.sh"
. "$SMOKE/shield.sh"

shield_hosts
# A Grantor behind a router with a smaller MTU, g.
host h
link g eth1 h eth0 1400
on g ip address add 10.0.5.1/24 dev eth1
on g sysctl -qw net.ipv4.ip_forward=1
on h ip address add 10.0.5.2/24 dev eth0
on h ip route add default via 10.0.5.1
{
	shield_config | sed 's/^mtu = 1600$/mtu = 1500/'
	printf '[[route]]\nprefix = "10.0.5.0/24"\nvia = "10.0.2.2"\n'
	printf '[[gatekeeper.protect]]\nprefix = "192.0.2.0/24"\ngrantors = ["10.0.5.2"]\n'
} | router_start
wait_for 10 grantors_found

errors() { # [WHAT]: ICMP errors about packets too long
	rutter gatekeeper show -j | json "next(e['count'] for e in x['errors'] if e['what'] == '${1:-too_long}')"
}
doctor_says() { # COUNT: of packets that were too long, here and behind the back
	assert_match "$(rutter doctor || true)" "room for the outer header .*; $1" "doctor's finding"
}
advised() {
	grep "gatekeeper: .* packets with their outer header exceeded the MTU .*: raise the mtu at the back" "$TMP/rutter.log"
}
too_long() { # by the router's word, not by what the client's kernel remembers of it
	on c ip route flush cache
	on c ip -6 route flush cache
	assert_told c 203.0.113.5 "From 10\.0\.1\.1 .*mtu ?= ?1480" "fragmentation needed" -M do -s 1453
	assert_told c 2001:db8:71::5 "From 2001:db8:1::1 .*mtu ?[=:] ?1460" "packet too big" -M do -s 1413
}
assert_eq "$(errors)" 0 "errors before any packet was sent"

# Requests that are a byte too long: 20 bytes of an outer header, 40 of IPv6.
begin=$(now_ms)
too_long
sent=$(errors)
[ "$sent" -ge 2 ] || fail "two errors were sent, and $sent are counted"
wait_for 5 advised
assert_match "$(rutter gatekeeper show)" "too_long +$sent\b" "the errors in the text of show"
doctor_says "$sent packets were too long so far"

# A source that lets others fragment is told nothing, and its packet does not leave.
client_sends 10.0.1.2 203.0.113.5 --size 1495 >/dev/null
dropped() { [ "$(drops too_long)" = 1 ]; }
wait_for 5 dropped
assert_eq "$(errors)" "$sent" "errors after a packet that may be fragmented"

# Granted packets likewise; one byte less, and they pass.
grantor_start 10.0.1.2/32=grant:4000:600:60000:60000 2001:db8:1::2/128=grant:4000:600:60000:60000
assert_ping c 203.0.113.5
assert_ping c 2001:db8:71::5
too_long
[ "$(errors)" -ge $((sent + 2)) ] || fail "two more errors were sent, and $(errors) are counted"
assert_ping c 203.0.113.5 -M do -s 1452
assert_ping c 2001:db8:71::5 -M do -s 1412
heard_so_many 1 "dscp=1 .* len=1500 inner=10.0.1.2>" || fail "no packet fills the way to the Grantor"
heard_so_many 1 "dscp=1 .* len=1500 inner=2001:db8:1::2>" || fail "no packet of IPv6 fills the way to the Grantor"
assert_at_most "$(advised | wc -l)" $((1 + ($(now_ms) - begin) / 60000)) "lines that advise, one a minute"

# A request that fits the back, and not the router behind it.
assert_eq "$(errors too_long_beyond)" 0 "errors of routers before any was sent"
sent=$(errors)
client_sends 10.0.1.2 192.0.2.5 --size 1490 --df >/dev/null
heard_of() { [ "$(errors too_long_beyond)" = 1 ]; }
wait_for 5 heard_of
assert_eq "$(errors)" "$sent" "errors to the source of what a router has dropped"
wait_for 5 grep "gatekeeper: 1 packets with their outer header were too long for a router behind" "$TMP/rutter.log"
assert_match "$(rutter gatekeeper show)" "too_long_beyond +1\b" "the router's errors in the text of show"
doctor_says ".* packets were too long so far; 1 packet was too long for routers behind the back so far"
router_stop
