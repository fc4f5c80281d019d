# Every engine in a running router, changed under traffic, and chosen at the start.
. "$(dirname "$0")/lib.sh"
need ping ethtool python3

engines() { # FAMILY: names
	rutter engines -j | json "' '.join(e['name'] for e in x if e['kind'] == 'lpm' and '$1' in e['families'])"
}
fib() { # FAMILY KEY
	rutter show fib -j | json "next(f['$2'] for f in x if f['vrf'] == 'main' and f['family'] == '$1')"
}

two_hosts
on b ip route add local 100.64.0.0/10 dev lo
on b ip -6 route add local 2001:db8:8000::/33 dev lo
two_ports | router_start
on r ip route add 100.64.0.0/16 via 10.0.2.2
on r ip route add 2001:db8:8000::/40 via 2001:db8:2::2
wait_for 10 reaches a 100.64.3.1
wait_for 10 reaches a 2001:db8:8000::1

pinging a 10.0.2.2 0.02
for engine in $(engines ipv4); do
	rutter fib engine set "$engine" --family ipv4
	assert_eq "$(fib ipv4 engine)" "$engine" "the engine of IPv4"
	on r ip route add 100.65.0.0/16 via 10.0.2.2
	wait_for 5 reaches a 100.65.3.1
	on r ip route del 100.65.0.0/16
	assert_ping a 100.64.3.1
done
for engine in $(engines ipv6); do
	rutter fib engine set "$engine" --family ipv6
	assert_eq "$(fib ipv6 engine)" "$engine" "the engine of IPv6"
	on r ip route add 2001:db8:8100::/40 via 2001:db8:2::2
	wait_for 5 reaches a 2001:db8:8100::1
	on r ip route del 2001:db8:8100::/40
	assert_ping a 2001:db8:8000::1
done
pinged "engines change"
rutter fib engine set cuvpp --family ipv6
assert_match "$(rutter show fib)" "main ipv6 cuvpp: .*[a-z]" "the engine's own counters"
router_stop

# The configuration chooses at the start; with an unknown name nothing starts.
for engine in $(engines ipv4); do
	two_ports >"$TMP/rutter.toml"
	printf '[vrf.main]\nipv4 = { engine = "%s" }\n' "$engine" >>"$TMP/rutter.toml"
	assert_status 0 rutter config check "$TMP/rutter.toml"
done
printf '[vrf.main]\nipv4 = { engine = "none" }\n' >"$TMP/wrong.toml"
assert_status 2 rutter config check "$TMP/wrong.toml"
