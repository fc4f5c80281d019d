# FRR, unmodified: BGP over the tap, routes by netlink and by FPM.
. "$(dirname "$0")/lib.sh"
need ping bird ethtool
[ -x /usr/lib/frr/zebra ] || skip "FRR is not installed"
[ -z "${RUTTER_SMOKE_USERNS:-}" ] || skip "FRR changes to its own user, which a user namespace does not have"
. "$SMOKE/routing.sh"

chmod 755 "$TMP"
install -d -o frr -g frr "$TMP/frr"

frr_on_router() { # ARGUMENTS OF ZEBRA
	cat >"$TMP/zebra.conf" <<-'END'
		fpm address 127.0.0.1 port 2620
	END
	cat >"$TMP/bgpd.conf" <<-'END'
		router bgp 65001
		 bgp router-id 10.0.2.1
		 no bgp ebgp-requires-policy
		 timers bgp 3 9
		 neighbor 10.0.2.2 remote-as 65002
		 neighbor 10.0.2.2 timers connect 1
		 neighbor 2001:db8:2::2 remote-as 65002
		 neighbor 2001:db8:2::2 timers connect 1
		 address-family ipv6 unicast
		  neighbor 2001:db8:2::2 activate
	END
	chown frr: "$TMP"/zebra.conf "$TMP"/bgpd.conf
	background zebra ip netns exec "${P}r" /usr/lib/frr/zebra -f "$TMP/zebra.conf" -z "$TMP/frr/zserv" \
		-i "$TMP/frr/zebra.pid" --vty_socket "$TMP/frr" "$@"
	zebra_pid=$last_pid
	wait_for 20 test -S "$TMP/frr/zserv"
	background bgpd ip netns exec "${P}r" /usr/lib/frr/bgpd -f "$TMP/bgpd.conf" -z "$TMP/frr/zserv" \
		-i "$TMP/frr/bgpd.pid" --vty_socket "$TMP/frr" -S
	bgpd_pid=$last_pid
}

frr_kill() {
	kill -KILL "$zebra_pid" "$bgpd_pid"
	wait_gone "$bgpd_pid" 100 || true
	wait_gone "$zebra_pid" 100 || true
}

# Both sessions are up, and the kernel has all of the peer's routes. A new zebra removes the routes
# of a killed one, so the routes alone prove nothing.
frr_is_ready() {
	wait_for 40 sh -c "[ \$(ip netns exec ${P}r ss -Hnt state established '( sport = :179 or dport = :179 )' |
		wc -l) = 2 ]"
	wait_for 40 sh -c "[ \$(ip netns exec ${P}r ip route | grep -c '^100\.') = 1000 ] &&
		[ \$(ip netns exec ${P}r ip -6 route | grep -c '^2001:db8:8') = 100 ]"
	wait_for 5 has_routes 1000 100
}

frr_off() {
	kill -TERM "$bgpd_pid" "$zebra_pid"
	wait_gone "$bgpd_pid" 100 || true
	wait_gone "$zebra_pid" 100 || true
}

two_hosts
on b ip route add local 100.64.0.0/10 dev lo
on b ip -6 route add local 2001:db8:8000::/33 dev lo
peer_announces b 1000 100

two_ports | router_start
frr_on_router
wait_for 40 has_routes 1000 100
assert_ping a 100.64.3.1
assert_ping a 2001:db8:8003::1
wait_for 5 same_as_kernel # FRR's next-hop objects among them

# Rutter is killed: all is right again within five seconds. FRR is killed: its routes stay in use,
# and all is right once FRR is back. Both are killed, and both come back.
router_kill
router_start
wait_for 5 has_routes 1000 100
wait_for 5 same_as_kernel
frr_kill
assert_ping a 100.64.3.1
frr_on_router
frr_is_ready
wait_for 5 same_as_kernel
frr_kill
router_kill
frr_on_router
router_start
frr_is_ready
wait_for 5 same_as_kernel
assert_ping a 100.64.3.1
frr_off
wait_for 20 has_routes 0 0
router_stop

{
	two_ports
	cat <<-'END'
		[vrf.main]
		routes = "fpm"
		[fpm]
		hold = 15
	END
} | router_start
fpm() { rutter show system -j | json 'dict([f["counters"] for f in x["feeds"] if f["name"] == "fpm"][0])["'"$1"'"]'; }
counts() { # COUNTER LEAST
	[ "$(fpm "$1")" -ge "$2" ]
}
knocks() { # USER: connects to FRR's port, says nothing, and waits to be refused
	on r setpriv --reuid "$1" --regid "$1" --clear-groups \
		bash -c 'exec 3<>/dev/tcp/127.0.0.1/2620; timeout 10 cat <&3'
}

# Another user cannot take zebra's place, neither before zebra starts nor after.
knocks 65534 || fail "a stranger is not refused"
assert_eq "$(fpm connections)" 0 "connections taken from a stranger"
frr_on_router -M dplane_fpm_nl
wait_for 40 has_routes 1000 100
for user in 65534 65534 0; do
	knocks $user || fail "user $user is not refused while FRR is there"
done
wait_for 5 counts strangers 3
wait_for 5 counts seconds 1
assert_eq "$(fpm connections)" 1 "connections"
sleep 6 # longer than any silence that once ended a listing
has_routes 1000 100 || fail "routes went with a stranger's silence"
assert_ping a 100.64.3.1
assert_ping a 2001:db8:8003::1
wait_for 5 same_as_kernel # where zebra has put them, too

# Without FRR its routes stay in use; FRR comes back and all is right again.
frr_kill
sleep 1
assert_ping a 100.64.3.1
frr_on_router -M dplane_fpm_nl
frr_is_ready
assert_ping a 100.64.3.1
wait_for 5 same_as_kernel

# Rutter is killed: zebra connects again and repeats all routes, in its own time.
router_kill
router_start
wait_for 30 has_routes 1000 100
wait_for 5 same_as_kernel
assert_ping a 100.64.3.1

# FRR is gone for good: its routes stay for the configured time, and go.
begin=$(now_ms)
frr_kill
while has_routes 1000 100; do
	assert_at_most $(($(now_ms) - begin)) $((30000 * PATIENCE)) "ms that the routes of a lost FRR stay"
	sleep 0.2
done
stayed=$(($(now_ms) - begin))
[ $stayed -ge 15000 ] || fail "the routes of a lost FRR stay for $stayed ms"
wait_for 5 has_routes 0 0
wait_for 5 grep -q "FRR has not come back in time: its routes are swept (1[0-9]* routes)" "$TMP/rutter.log"
wait_for 5 counts swept 1100
