# No side door: if the front is a VLAN, its port's untagged interface belongs to it, for the kernel,
# too; the shield's rules and routes come back when others delete them; an unused source for
# Grantors is reported.
. "$(dirname "$0")/lib.sh"
. "$SMOKE/shield.sh"

#   c 10.0.1.2 untagged, and by t100 10.0.9.2 with the tag 100 ── v0 r v1 ── g 10.0.2.2: the Grantor
shield_hosts
tagged c eth0 t100 100
on c ip address add 10.0.9.2/24 dev t100
config() { # [MORE LINES OF gatekeeper]
	printf 'workers = [0, 1]\n[ports.p0]\ndevice = "%s"\n' "$(device 0 v0)"
	printf '[ports.p0.vlan.100]\naddresses = ["10.0.9.1/24"]\n'
	port p1 v1 10.0.2.1/24 2001:db8:2::1/64 "mtu = 1600"
	shield_section '"p0.100"' '"p1"' "${1:-}"
	# A route to the protected network, as a router without a shield has it.
	printf '[[route]]\nprefix = "203.0.113.0/24"\nvia = "10.0.2.2"\n'
}
config | router_start
wait_for 10 grantors_found
watch g
forwarded=$(kernel_forwarded r)

grep "interfaces on ports of the front are front, too: p0" "$TMP/rutter.log" >/dev/null || fail "nobody says what p0 is"
for name in p0 p0.100; do
	on r ip rule | found "1105:.*iif $name prohibit" || fail "no rule for $name"
	on r ip -6 rule | found "1105:.*iif $name prohibit" || fail "no rule for IPv6 of $name"
done
client_sends 10.0.1.2 203.0.113.5 --count 20 --rate 200 >/dev/null
odd c send t100 "$(mac_of r p0)" 10.0.9.2 203.0.113.5 --count 20 --rate 200 >/dev/null
both_ask() { [ "$(came wrapped)" -ge 2 ]; }
wait_for 10 both_ask
sleep 0.5
assert_eq "$(came bare)" 0 "packets that leaked"
assert_eq "$(kernel_forwarded r)" "$forwarded" "packets that the kernel has forwarded"

# Somebody deletes the rules that keep the kernel from forwarding: they come back, and the event is
# reported.
on r ip rule del iif p0 prohibit
on r ip -6 rule del iif p0.100 prohibit
again() {
	on r ip rule | found "1105:.*iif p0 prohibit" && on r ip -6 rule | found "1105:.*iif p0.100 prohibit"
}
wait_for 15 again
wait_for 5 grep "rules .*from p0.* were deleted" "$TMP/rutter.log"
doctor() {
	rutter doctor >"$TMP/doctor" || true # it finds much on a small machine
	found "$1" <"$TMP/doctor" || { cat "$TMP/doctor"; return 1; }
}
wait_for 5 doctor "deleted by somebody else, and put back"
! doctor "no interface has" >/dev/null || fail "a source that nobody named"
router_stop

config 'from = ["10.0.2.77"]' | router_start
named() { doctor "no interface has 10.0.2.77" >/dev/null; }
wait_for 5 named || fail "doctor does not name a source that is nobody's"

# The router is killed: the kernel forwards nothing from the VLAN's tap, nor from the port's.
assert_ping c 10.0.9.1
router_kill
for tap in p0.100 p0; do
	for to in 203.0.113.5 10.0.2.2; do
		assert_eq "$(put $tap 10.0.9.2 $to)" 0 "packets for $to, put into $tap and forwarded"
	done
done
assert_eq "$(put p1 10.0.2.2 10.0.9.2)" 5 "packets put into the tap at the back"

# The front is a bridge's routed interface.
bridged() {
	printf 'workers = [0, 1]\n[ports.p0]\ndevice = "%s"\n' "$(device 0 v0)"
	printf '[bridge.lan]\nports = ["p0"]\naddresses = ["10.0.1.1/24"]\n'
	port p1 v1 10.0.2.1/24 2001:db8:2::1/64 "mtu = 1600"
	shield_section '"lan"' '"p1"'
}
bridged | router_start
wait_for 10 grantors_found
assert_ping c 10.0.1.1
wrapped=$(came wrapped) forwarded=$(kernel_forwarded r)
odd c send eth0 "$(mac_of r lan)" 10.0.1.2 203.0.113.5 --count 20 --rate 200 >/dev/null
more_ask() { [ "$(came wrapped)" -gt "$wrapped" ]; }
wait_for 10 more_ask
sleep 0.5
assert_eq "$(came bare)" 0 "packets that leaked from a bridge"
assert_eq "$(kernel_forwarded r)" "$forwarded" "packets from a bridge that the kernel has forwarded"
router_kill
assert_eq "$(put lan 10.0.1.2 203.0.113.5)" 0 "packets put into the bridge's tap and forwarded"
