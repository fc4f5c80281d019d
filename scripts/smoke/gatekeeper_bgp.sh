# Unmodified BIRD and FRR announce the protections: they are blackhole routes of protocol 199 that
# come and go with the protections.
. "$(dirname "$0")/lib.sh"
need bird birdc
. "$SMOKE/shield.sh"
[ -x /usr/lib/frr/zebra ] || skip "FRR is not installed"
[ -z "${RUTTER_SMOKE_USERNS:-}" ] || skip "FRR changes to its own user, which a user namespace does not have"
chmod 755 "$TMP"
install -d -o frr -g frr "$TMP/frr"

#   c 10.0.1.2: a provider, BIRD ── v0 r v1 ── g 10.0.2.2: the Grantor, BIRD of the defended network
shield_hosts
config() {
	shield_config "withdraw = true"
	printf '[[gatekeeper.protect]]\nprefix = "192.0.2.0/24"\naction = "drop"\n'
	printf '[[gatekeeper.protect]]\nprefix = "198.51.100.0/24"\naction = "bypass"\n'
	printf '[[route]]\nprefix = "198.51.100.0/24"\nvia = "10.0.2.2"\n'
}
config | router_start
wait_for 10 grantors_found

# The peers: the provider announces the protected prefixes, too, and a default route; so does the
# defended network.
peer() { # NS ADDR4 ADDR6 ROUTER4 ROUTER6 ASN
	cat >"$TMP/$1.conf" <<-END
		router id $2;
		protocol device {}
		protocol static own4 { ipv4;
			route 0.0.0.0/0 blackhole; route 203.0.113.0/24 blackhole; route 100.64.$6.0/24 blackhole;
			route 100.64.9.0/24 blackhole; }
		protocol static own6 { ipv6; route 2001:db8:71::/48 blackhole; route 2001:db8:8$6::/48 blackhole; }
		template bgp to_router { local as 6500$6; hold time 9; connect retry time 1; error wait time 1, 2;
			connect delay time 1; }
		protocol bgp r4 from to_router { neighbor $4 as 65009; source address $2;
			ipv4 { import all; export where proto = "own4"; next hop self; }; }
		protocol bgp r6 from to_router { neighbor $5 as 65009; source address $3;
			ipv6 { import all; export where proto = "own6"; next hop self; }; }
	END
	background "bird-$1" ip netns exec "$P$1" bird -f -c "$TMP/$1.conf" -s "$TMP/$1.ctl" -P "$TMP/$1.pid"
}
peer c 10.0.1.2 2001:db8:1::2 10.0.1.1 2001:db8:1::1 1
peer g 10.0.2.2 2001:db8:2::2 10.0.2.1 2001:db8:2::1 2

# BIRD on the router: learns what is protected from the kernel, before anybody's announcements of the same prefix;
# writes # what it has from BGP there.
router_bird() {
	cat >"$TMP/r.conf" <<-END
		router id 10.0.1.1;
		protocol device { scan time 2; }
		protocol direct { ipv4; ipv6; }
		filter protected { if krt_source = 199 && krt_metric = 8 then { preference = 200; accept; } reject; }
		protocol kernel k4 { learn; scan time 2; merge paths on; ipv4 { import filter protected; export where source = RTS_BGP; }; }
		protocol kernel k6 { learn; scan time 2; ipv6 { import filter protected; export where source = RTS_BGP; }; }
		template bgp peer { local as 65009; hold time 9; connect retry time 1; error wait time 1, 2; connect delay time 1; }
		protocol bgp c4 from peer { neighbor 10.0.1.2 as 65001; ipv4 { import all; export where proto = "k4"; }; }
		protocol bgp c6 from peer { neighbor 2001:db8:1::2 as 65001; ipv6 { import all; export where proto = "k6"; }; }
		protocol bgp g4 from peer { neighbor 10.0.2.2 as 65002; ipv4 { import all; export none; }; }
		protocol bgp g6 from peer { neighbor 2001:db8:2::2 as 65002; ipv6 { import all; export none; }; }
	END
	background bird ip netns exec "${P}r" bird -f -c "$TMP/r.conf" -s "$TMP/r.ctl" -P "$TMP/r.pid"
	bird_pid=$last_pid
}

frr() {
	: >"$TMP/zebra.conf"
	cat >"$TMP/bgpd.conf" <<-'END'
		router bgp 65009
		 bgp router-id 10.0.1.1
		 no bgp ebgp-requires-policy
		 timers bgp 3 9
		 neighbor 10.0.1.2 remote-as 65001
		 neighbor 10.0.1.2 timers connect 1
		 neighbor 2001:db8:1::2 remote-as 65001
		 neighbor 2001:db8:1::2 timers connect 1
		 address-family ipv4 unicast
		  redistribute kernel
		 exit-address-family
		 address-family ipv6 unicast
		  neighbor 2001:db8:1::2 activate
		  redistribute kernel
		 exit-address-family
	END
	chown frr: "$TMP"/zebra.conf "$TMP"/bgpd.conf
	background zebra ip netns exec "${P}r" /usr/lib/frr/zebra -f "$TMP/zebra.conf" -z "$TMP/frr/zserv" \
		-i "$TMP/frr/zebra.pid" --vty_socket "$TMP/frr"
	zebra_pid=$last_pid
	wait_for 20 test -S "$TMP/frr/zserv"
	background bgpd ip netns exec "${P}r" /usr/lib/frr/bgpd -f "$TMP/bgpd.conf" -z "$TMP/frr/zserv" \
		-i "$TMP/frr/bgpd.pid" --vty_socket "$TMP/frr" -S
	bgpd_pid=$last_pid
}

# The announcements of the router that the provider has, among these four.
hears() { # PREFIX …: these, and no others of the protections
	local prefix heard=()
	for prefix in 203.0.113.0/24 192.0.2.0/24 198.51.100.0/24 2001:db8:71::/48; do
		on c birdc -s "$TMP/c.ctl" "show route $prefix where proto ~ \"r*\"" >"$TMP/heard.out" 2>/dev/null || true
		! found "^$prefix" <"$TMP/heard.out" || heard+=("$prefix")
	done
	[ "${heard[*]:-}" = "$*" ]
}
readonly ALL=(203.0.113.0/24 192.0.2.0/24 2001:db8:71::/48)
kernel_has() { # what is protected is a blackhole of Rutter's
	shown=$(on r ip route show type blackhole proto 199 | wc -l)
	assert_eq "$shown $(on r ip -6 route show proto 199 | grep -c blackhole)" "2 1" \
		"blackhole routes of protocol 199"
}
wait_for 5 kernel_has # routes follow what is reachable

announced() { # BY-WHAT
	wait_for 30 hears "${ALL[@]}"
	# A deleted protection is withdrawn, a new one is announced.
	rutter gatekeeper protect del 192.0.2.0/24
	wait_for 10 hears 203.0.113.0/24 2001:db8:71::/48
	rutter gatekeeper protect add 192.0.2.0/24 drop
	wait_for 10 hears "${ALL[@]}"
	# Without a Grantor nobody should send packets here.
	on g ip link set eth0 down
	wait_for 30 hears 192.0.2.0/24
	host_up g 10.0.2.1 2001:db8:2::1
	wait_for 30 hears "${ALL[@]}"
}

router_bird
announced "BIRD"
# The route to the Grantor is the connected network's, whoever announces it: the same prefix comes
# from both sides.
learnt() {
	on r birdc -s "$TMP/r.ctl" show route 203.0.113.0/24 all | grep -c "BGP.next_hop: 10.0.[12].2" | found '[12]'
}
wait_for 20 learnt
wait_for 10 grantors_found
# A Grantor that both sides announce at equal cost, alone and by the default route: by the back.
by_the_back() { # GRANTOR
	rutter gatekeeper show -j | json "[g['by'] for g in x['grantors'] if g['address'] == '$1']" | found "\[\['p1'\]\]"
}
merged() { on r ip route show "$1" | grep -c "nexthop via 10.0.[12].2 " | found 2; }
for grantor in 100.64.9.9 100.64.200.9; do
	rutter gatekeeper protect add 198.18.0.0/24 via $grantor
	wait_for 20 merged "$([ $grantor = 100.64.9.9 ] && echo 100.64.9.0/24 || echo default)"
	wait_for 10 grantors_found
	wait_for 10 by_the_back $grantor
	rutter gatekeeper protect del 198.18.0.0/24
done
grantor_start 10.0.1.0/24=grant:1000:600:60000:60000 2001:db8:1::/64=grant:1000:600:60000:60000
wait_for 20 assert_ping c 203.0.113.5
assert_ping c 2001:db8:71::5
assert_ping c 10.0.1.1

# Rutter is killed: the announcements stay while it is away, when nothing leaks, and after it is back.
# (Its taps have no carrier meanwhile: BIRD's sessions end.)
kill_router() {
	router_kill
	kernel_has
	assert_no_ping c 203.0.113.5
	config | router_start
	kernel_has
}
kill_router
wait_for 30 hears "${ALL[@]}"
wait_for 20 assert_ping c 203.0.113.5
# BIRD is killed: the shield still works; BIRD comes back and announces everything.
kill -KILL "$bird_pid"
assert_ping c 203.0.113.5
assert_ping c 2001:db8:71::5
kernel_has
router_bird
wait_for 30 hears "${ALL[@]}"
kill -TERM "$bird_pid"
wait_gone "$bird_pid" 100 || fail "BIRD does not end"
wait_for 20 hears

# FRR.
frr
announced "FRR"
kill -KILL "$zebra_pid" "$bgpd_pid"
wait_gone "$zebra_pid" 100
wait_gone "$bgpd_pid" 100
kernel_has
wait_for 20 assert_ping c 203.0.113.5
frr
wait_for 40 hears "${ALL[@]}"
kill_router
wait_for 40 hears "${ALL[@]}"
kill -TERM "$bgpd_pid" "$zebra_pid"
router_stop
assert_eq "$(on r ip route show proto 199 | grep -c blackhole || true)" 0 "blackhole routes after the end"
