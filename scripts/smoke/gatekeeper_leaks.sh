# Nothing leaks: packets that a router would punt, or has no route for, reach nobody behind a
# shield; and the kernel does not forward packets that are put into a tap at the front.
. "$(dirname "$0")/lib.sh"
. "$SMOKE/shield.sh"

shield_hosts
# An unprotected host at the back; and a route to the protected network, as a router without a
# shield has it.
on g ip address add 10.0.2.9/24 dev eth0
on g ip route add local 198.51.100.0/24 dev lo
on c ip link set eth0 mtu 9000
on r ip link set v0 mtu 9000 # the wire carries what the port must not take
config() {
	shield_config
	for prefix in 203.0.113.0/24 198.51.100.0/24; do
		printf '[[route]]\nprefix = "%s"\nvia = "10.0.2.2"\n' $prefix
	done
	printf '[[route]]\nprefix = "2001:db8:71::/48"\nvia = "2001:db8:2::2"\n'
	printf '[[gatekeeper.protect]]\nprefix = "192.0.2.0/24"\ngrantors = ["10.0.2.77"]\n' # nobody has that address
}
config | router_start
named_found() {
	rutter gatekeeper show -j |
		json "{g['address'] for g in x['grantors'] if not g['fault']} == {'10.0.2.2', '2001:db8:2::2'}" |
		found True
}
wait_for 10 named_found
watch g
forwarded=$(kernel_forwarded r)
assert_ping c 10.0.1.1
assert_ping c 2001:db8:1::1

# The Grantor does not answer, so nothing is granted.
client_sends 10.0.1.2 203.0.113.5,198.51.100.5,10.0.2.9 --kind all --count 5 --rate 500 >/dev/null
client_sends 2001:db8:1::2 2001:db8:71::5,2001:db8:2::2 --kind all --count 5 --rate 500 >/dev/null
client_sends 10.0.1.2,127.0.0.1,203.0.113.9,10.0.2.1 203.0.113.5 --size 1515,1516,4000 --df --count 2 >/dev/null
client_sends 2001:db8:1::2,::1,fe80::7 2001:db8:71::5 --size 1515,4000 --count 2 >/dev/null
client_sends 10.0.1.2 224.0.0.9,239.1.2.3,255.255.255.255 --count 2 >/dev/null
client_sends 2001:db8:1::2 ff0e::9 --count 2 >/dev/null
client_sends 10.0.1.2 198.51.100.77,10.0.2.78 --count 5 --rate 100 >/dev/null # no neighbour
client_sends 10.0.1.2 192.0.2.5 --count 15 --rate 50 >/dev/null

last_is_there() {
	client_sends 10.0.1.99 203.0.113.99 >/dev/null
	grep "^wrapped " "$TMP/came-g" | found 0a000163cb007163
}
wait_for 10 last_is_there
sleep 0.5
twenty_came() { [ "$(came wrapped)" -ge 20 ]; } # requests at the Grantor
wait_for 5 twenty_came
grep "^bare " "$TMP/came-g" | head -n 3 || true
assert_eq "$(came bare)" 0 "packets that leaked"
assert_eq "$(kernel_forwarded r)" "$forwarded" "packets that the kernel has forwarded"
unresolved() { [ "$(drops unresolved)" -ge 15 ]; } # packets without a Grantor
wait_for 5 unresolved
rutter gatekeeper show -j | json "next(g['fault'] for g in x['grantors'] if g['address'] == '10.0.2.77')" | found .

# A way through: the client's granted packets pass, and the answers come back.
grantor_start 10.0.1.2/32=grant:1000:600:60000:60000
assert_ping c 203.0.113.5

# Sessions with the router itself work, in both directions.
background session ip netns exec "${P}r" python3 -c '
import socket
s = socket.create_server(("::", 179), family=socket.AF_INET6, dualstack_ipv6=True); print("ready", flush=True)
while True:
    c, _ = s.accept(); c.sendall(b"open"); c.close()'
is_ready session
for own in 10.0.1.1 2001:db8:1::1; do
	on c timeout 10 bash -c "cat </dev/tcp/$own/179" | found open || fail "no session with $own"
done

# Packets to a macvlan (keepalived, FRR) come in by it, not by its tap.
on r ip link add vmac link p0 type macvlan mode bridge
on r ip link set vmac up
has_rules() {
	[ "$(on r ip $1 rule | grep -c 'iif vmac prohibit')" = 1 ]
}
for family in -4 -6; do
	wait_for 10 has_rules $family
done

# The router is killed: taps and rules stay, and the kernel forwards nothing from the front. From
# the back it would.
router_kill
for link in p0 vmac; do
	for to in 203.0.113.5 10.0.2.2 198.51.100.5; do
		assert_eq "$(put p0 10.0.1.2 $to $link)" 0 "packets for $to, put into the tap for $link and forwarded"
	done
	for to in 2001:db8:71::5 2001:db8:2::2; do
		assert_eq "$(put p0 2001:db8:1::2 $to $link)" 0 "packets for $to, put into the tap for $link and forwarded"
	done
done
assert_eq "$(put p1 10.0.2.2 10.0.1.2)" 5 "packets put into the tap at the back"
assert_eq "$(put p1 2001:db8:2::2 2001:db8:1::2)" 5 "packets put into the tap at the back"

# A new instance finds the rules, and removes them when it ends.
config | router_start
wait_for 20 assert_ping c 203.0.113.5
router_stop
for family in -4 -6; do
	assert_no_match "$(on r ip $family rule)" "iif (p0|vmac)" "rules of the front after the end"
	assert_no_match "$(on r ip $family route show proto 199)" blackhole "routes of protections after the end"
done
