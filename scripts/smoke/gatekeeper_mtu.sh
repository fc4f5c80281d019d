# The back of a shield has no room for the outer header: whose packet does not fit is told which
# length would, packets of that length pass, and the log advises a larger MTU.
. "$(dirname "$0")/lib.sh"
. "$SMOKE/shield.sh"

shield_hosts
shield_config | sed 's/^mtu = 1600$/mtu = 1500/' | router_start
wait_for 10 grantors_found

errors() { # ICMP errors about packets too long
	rutter gatekeeper show -j | json "next(e['count'] for e in x['errors'] if e['what'] == 'too_long')"
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
too_long
sent=$(errors)
[ "$sent" -ge 2 ] || fail "two errors were sent, and $sent are counted"
wait_for 5 advised

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
assert_eq "$(advised | wc -l)" 1 "lines that advise, in a minute"
router_stop
