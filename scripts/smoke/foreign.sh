# Packets that a router does not forward: to link-local addresses, and by interfaces that are not
# its own. And neighbours that it accepts: on 169.254.x.y/30.
. "$(dirname "$0")/lib.sh"
need ping ethtool python3 bird

drops() { # NAME: how many
	rutter show drops -j | json "sum(d['packets'] for d in x if d['reason'] == '$1')"
}

dropped_more() { # NAME BEFORE
	[ "$(drops "$1")" -gt "$2" ] || fail "nothing is dropped as $1"
}

two_hosts
host m
link m eth0 r m0 # an interface of the router's machine that is no port
on m ip address add 192.168.9.2/24 dev eth0
on m ip route add default via 192.168.9.1
on r ip address add 192.168.9.1/24 dev m0
on r sysctl -qw net.ipv4.conf.m0.forwarding=1 net.ipv4.conf.m0.rp_filter=0
on a ip address add 169.254.9.2/30 dev eth0
on b ip address add 169.254.8.2/30 dev eth0
two_ports | sed 's|"10.0.1.1/24"|"10.0.1.1/24", "169.254.9.1/30"|; s|"10.0.2.1/24"|"10.0.2.1/24", "169.254.8.1/30"|' >"$TMP/rutter.toml"
router_start
assert_ping a 10.0.2.2

# By interfaces that are not Rutter's: only if the configuration allows it.
before=$(drops ip4_lookup.via_kernel)
assert_no_ping a 192.168.9.2
dropped_more ip4_lookup.via_kernel "$before"
said=$(on r "$RUTTER" doctor || true)
assert_match "$said" "[1-9] through m0: packets from ports are not sent there" "what doctor says"
assert_match "$said" "via_kernel = true" "what doctor advises"

# Link-local addresses are for their link: the router answers there, and forwards nothing to them.
assert_ping a 169.254.9.1
on a ip route add 169.254.77.0/24 via 10.0.1.1
before=$(drops ip4_lookup.martian)
assert_no_ping a 169.254.77.1 -I 10.0.1.2
dropped_more ip4_lookup.martian "$before"

# Nor does it forward from them.
before=$(drops ip4_link_local.link_local)
on a ip route add 10.0.2.2/32 via 10.0.1.1 src 169.254.9.2
assert_no_ping a 10.0.2.2 -I 169.254.9.2
dropped_more ip4_link_local.link_local "$before"
on a ip route del 10.0.2.2/32
assert_ping a 169.254.9.1

# BGP between link-local addresses, as in clouds; the routes lead to the link-local neighbour.
speaker() { # NS AS OWN PEER PEER-AS CHANNEL
	printf 'router id %s;\nprotocol device {}\nprotocol static lots { ipv4; route 100.64.9.0/24 blackhole; }\n' "$3"
	[ "$1" = b ] || printf 'protocol kernel { ipv4 { export where source = RTS_BGP; import none; }; }\n'
	printf 'protocol bgp peer { local %s as %s; neighbor %s as %s; connect delay time 1; ipv4 { import all; export %s; }; }\n' \
		"$3" "$2" "$4" "$5" "$6"
}
speaker b 65002 169.254.8.2 169.254.8.1 65001 all >"$TMP/b.conf"
speaker r 65001 169.254.8.1 169.254.8.2 65002 none | sed '/protocol static/d' >"$TMP/r.conf"
on b ip address add 100.64.9.1/32 dev lo
for ns in b r; do
	background "bird-$ns" ip netns exec "$P$ns" bird -f -c "$TMP/$ns.conf" -s "$TMP/$ns.ctl" -P "$TMP/$ns.pid"
done
wait_for 30 sh -c "'$RUTTER' show routes | grep -q 100.64.9.0/24"
assert_ping a 100.64.9.1

# No redirect is sent, and none is accepted.
for key in ipv4.conf.all.send_redirects ipv4.conf.p0.send_redirects ipv4.conf.p0.accept_redirects \
	ipv6.conf.p0.accept_redirects; do
	assert_eq "$(on r sysctl -n "net.$key")" 0 "$key"
done
router_stop

printf '[vrf.main]\nvia_kernel = true\n' >>"$TMP/rutter.toml"
router_start
assert_ping a 192.168.9.2
router_stop

# From the router's own addresses: forwarded, unless the configuration forbids it.
spoof() { # to b, from the router's address at b
	on a ip route replace 10.0.2.2/32 via 10.0.1.1
	on a ip address add 10.0.2.1/32 dev lo
	on a ping -c 3 -i 0.2 -W 1 -I 10.0.2.1 10.0.2.2 >/dev/null 2>&1 || true
	on a ip address del 10.0.2.1/32 dev lo
}
printf 'own_sources = false\n' >>"$TMP/rutter.toml"
router_start
assert_ping a 10.0.2.2
spoof
dropped_more ip4_source.own_source 0
assert_ping a 10.0.2.2
router_stop
