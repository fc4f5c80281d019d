# A full table refuses, counts and continues; an engine is changed under traffic.
. "$(dirname "$0")/lib.sh"
need ping ethtool python3

two_hosts
on b ip route add local 100.64.0.0/10 dev lo
{
	two_ports
	cat <<-'END'
		[vrf.main]
		ipv4 = { max_routes = 500 }
	END
} | router_start

routes_up_to() { # N: 100.64.0.0/24 and on
	awk -v n="$1" 'BEGIN { for (i = 0; i < n; i++) printf "route replace 100.%d.%d.0/24 via 10.0.2.2\n", 64 + int(i / 256), i % 256 }' |
		on r ip -batch -
}
fib() { rutter show fib -j | json "next(f['$1'] for f in x if f['vrf'] == 'main' and f['family'] == 'ipv4')"; }

refused() { rutter show capacity -j | json 'next(c["refused"] for c in x if c["what"] == "routes main ipv4")'; }

routes_up_to 400
wait_for 10 reaches a 100.65.10.1
assert_eq "$(refused)" 0 "routes refused below the limit"
routes_up_to 800
refusing() { [ "$(refused)" -ge 200 ]; }
wait_for 10 refusing
assert_ping a 100.65.10.1
assert_ping a 10.0.2.2
assert_at_most "$(fib routes)" 500 "routes in the table"
assert_match "$(rutter show capacity)" "max_routes" "the limit in show capacity"
assert_eq "$([ "$(fib refused)" -ge 200 ] && echo yes)" yes "refused routes in show fib"
assert_status 1 rutter doctor
assert_match "$(cat "$TMP/status.out")" "^error +max_routes +routes main ipv4: 500 of 500, [0-9]+ refused" "the doctor's error"
logged() { grep -Eq "ERROR.*routes main ipv4: [0-9]+ refused .*max_routes" "$TMP/rutter.log"; }
wait_for 20 logged

# Room again: the refused routes come in.
on r sh -c 'for i in $(seq 0 255); do echo route del 100.64.$i.0/24; done | ip -batch -'
on r sh -c 'for i in $(seq 0 255); do echo route del 100.66.$i.0/24; done | ip -force -batch -' 2>/dev/null || true
wait_for 70 reaches a 100.67.10.1

# Another engine, built beside the running one.
pinging a 10.0.2.2 0.005
for engine in bsd-radix dir-24-8; do
	said=$(rutter fib engine set $engine 2>&1)
	assert_match "$said" "$engine now serves ipv4.* of VRF main" "what is changed"
	running() { [ "$(fib engine)" = "$engine" ]; }
	wait_for 20 running
	assert_ping a 100.65.10.1
done
pinged "engines change"
assert_status 2 rutter fib engine set no-such-engine
