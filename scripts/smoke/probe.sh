# Random addresses through a large table: each probe leaves by a port and to a MAC that the kernel's
# table allows, also while a port has no carrier. PROBE_ROUTES=N: this many IPv4 prefixes (default
# 100,000), a fifth as many IPv6.
. "$(dirname "$0")/lib.sh"
need ping ethtool python3

readonly ROUTES4=${PROBE_ROUTES:-100000} PROBES4=4000 PROBES6=1000
readonly ROUTES6=$((ROUTES4 / 5))
probe() { python3 "$SMOKE/probe.py" "$@"; }

two_hosts
station c v2 10.0.3.2/24 10.0.3.1 2001:db8:3::2/64 2001:db8:3::1
{
	two_ports
	port p2 v2 10.0.3.1/24 2001:db8:3::1/64
} | router_start
# The router never uses paths without a carrier; the kernel needs this setting for it.
on r sysctl -qw net.ipv4.conf.all.ignore_routes_with_linkdown=1 net.ipv6.conf.all.ignore_routes_with_linkdown=1
for tap in p1 p2; do
	on r sysctl -qw net.ipv4.conf.$tap.ignore_routes_with_linkdown=1 net.ipv6.conf.$tap.ignore_routes_with_linkdown=1
done

probe routes "$ROUTES4" 0 >"$TMP/batch4"
probe routes 0 "$ROUTES6" >"$TMP/batch6"
on r ip -batch "$TMP/batch4"
on r ip -6 -batch "$TMP/batch6"
learnt() { # FAMILY BATCH: what the kernel has, the router has
	local has
	has=$(rutter show fib -j | json "next(f['routes'] for f in x if f['vrf'] == 'main' and f['family'] == '$1')")
	[ "$has" -ge "$(grep -c '^route' "$2")" ]
}
wait_for 120 learnt ipv4 "$TMP/batch4"
wait_for 60 learnt ipv6 "$TMP/batch6"

forget() { # what was heard
	for name in b c; do : >"$TMP/heard-$name"; done
}

# Sends the probes in a file, and compares; a probe that is lost on a busy machine is sent again.
all_leave() { # WHEN SEED
	local round rate=4000
	probe addresses "$PROBES4" "$PROBES6" "$2" | sort -u >"$TMP/addresses"
	sed 's/^/route get fibmatch /' "$TMP/addresses" >"$TMP/asked"
	on r ip -o -force -batch "$TMP/asked" >"$TMP/answers" 2>"$TMP/errors" || true
	{ on r ip neighbour show && on r ip -6 neighbour show; } >"$TMP/neighbours"
	cp "$TMP/addresses" "$TMP/missing"
	forget
	for round in 1 2 3 4 5; do
		on a python3 "$SMOKE/probe.py" send eth0 "$(mac_of r p0)" "$TMP/missing" --rate $rate
		sleep 0.5
		probe judge "$TMP/addresses" "$TMP/answers" "$TMP/errors" "$TMP/neighbours" "$TMP/missing" $round \
			p1="$TMP/heard-b" p2="$TMP/heard-c" >"$TMP/judged" || { cat "$TMP/judged"; fail "$1: probes left by a wrong way"; }
		[ -s "$TMP/missing" ] || break
		rate=500
	done
	[ ! -s "$TMP/missing" ] || { head "$TMP/missing"; fail "$1: probes that have a way did not leave"; }
	assert_match "$(cat "$TMP/judged")" '[1-9][0-9]{3} with a way' "$1: most probes have a way"
}

forget
for name in b c; do
	background "hear-$name" ip netns exec "$P$name" python3 "$SMOKE/probe.py" hear eth0 "$TMP/heard-$name"
	is_ready "hear-$name"
done
# Routes follow in their time: some probes leave as they are to. From then on all do.
follow() { # WHEN SEED
	wait_for 20 all_leave "$1" "$2"
	all_leave "$1, from then on" "$2"
}

all_leave "all ports up" 1
tail -n 1 "$TMP/judged"

carrier() { [ "$(on r cat /sys/class/net/p1/carrier)" = "$1" ]; }
on b ip link set eth0 down
wait_for 10 carrier 0
sleep 2 # routes without another way follow once the link has been quiet
follow "p1 without carrier" 2
tail -n 1 "$TMP/judged"
on b ip link set eth0 up
wait_for 10 carrier 1
sleep 2
follow "p1 with a carrier again" 3
tail -n 1 "$TMP/judged"
router_stop
