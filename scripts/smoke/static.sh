# Static routes: from the configuration and at run time, of every kind.
. "$(dirname "$0")/lib.sh"
need ping ethtool

two_hosts
for last in 1 2 3 4 5 6; do on b ip address add 10.9.$last.1/32 dev lo; done
on b ip address add 2001:db8:9::1/128 dev lo
{
	two_ports
	cat <<-'END'
		[[route]]
		prefix = "10.9.1.0/24"
		via = ["10.0.2.2"]
		[[route]]
		prefix = "10.9.2.0/24"
		kind = "blackhole"
		[[route]]
		prefix = "10.9.3.0/24"
		kind = "unreachable"
		[[route]]
		prefix = "10.9.4.0/24"
		kind = "prohibit"
		[[route]]
		prefix = "2001:db8:9::/48"
		via = ["2001:db8:2::2"]
	END
} | router_start

assert_ping a 10.9.1.1
assert_ping a 2001:db8:9::1
assert_no_ping a 10.9.2.1
assert_told a 10.9.3.1 "From 10.0.1.1 .*Unreachable" "unreachable"
assert_told a 10.9.4.1 "From 10.0.1.1 .*(Prohibited|filtered)" "prohibit"
assert_told a 10.9.5.1 "From 10.0.1.1 .*Unreachable" "no route"
assert_match "$(rutter show drops)" "blackhole" "the blackhole among the drops"

# Routes are the kernel's: `ip route` lists them, and routes that it adds are followed.
assert_match "$(on r ip route show 10.9.1.0/24)" "via 10.0.2.2 dev p1" "the kernel's route"
rutter route add 10.9.5.0/24 via 10.0.2.2
wait_for 5 reaches a 10.9.5.1
rutter route del 10.9.5.0/24
wait_for 5 sh -c '! "$RUTTER" show routes | grep -q 10.9.5.0/24'
assert_no_ping a 10.9.5.1
on r ip route add 10.9.6.0/24 via 10.0.2.2
wait_for 5 reaches a 10.9.6.1

# The best of equal prefixes wins, as in the kernel.
on r ip route add blackhole 10.9.6.0/24 metric 5
on r ip route change 10.9.6.0/24 via 10.0.2.2 metric 0 2>/dev/null || true
assert_ping a 10.9.6.1
on r ip route del 10.9.6.0/24 metric 0
wait_for 5 sh -c '"$RUTTER" show routes | grep 10.9.6.0/24 | grep -q blackhole'
assert_no_ping a 10.9.6.1

# IPv4 over an IPv6 next hop (RFC 8950).
on r ip route replace 10.9.6.0/24 metric 1 via inet6 2001:db8:2::2 dev p1
wait_for 5 reaches a 10.9.6.1

# Impossible routes are reported.
assert_status 2 rutter route add 10.9.7.1/24 via 10.0.2.2

# A connected network is not cut off by a route of the same metric; a route of another metric is
# kept beside it.
assert_status 2 rutter route add 10.0.2.0/24 blackhole
assert_match "$(cat "$TMP/status.out")" "the kernel has another route to this prefix" "why it is refused"
assert_match "$(on r ip route show 10.0.2.0/24)" "dev p1 proto kernel" "the connected route"
assert_status 0 rutter route add 10.0.2.0/24 blackhole metric 50
assert_status 0 rutter route add 10.0.2.0/24 unreachable metric 50
assert_ping a 10.9.1.1
assert_status 0 rutter route del 10.0.2.0/24 metric 50
assert_status 1 rutter route del 10.99.0.0/16

# A throw route counts as no route.
on r ip route add throw 10.9.1.0/25
wait_for 5 sh -c '"$RUTTER" show routes | grep -q "^throw 10.9.1.0/25"'
assert_told a 10.9.1.1 "From 10.0.1.1 .*Unreachable" "a throw route"
on r ip route del throw 10.9.1.0/25
wait_for 5 reaches a 10.9.1.1

# Routes that no table by destination can express are counted and named.
on r ip route add 10.9.1.0/24 tos 0x10 via 10.0.2.2
wait_for 15 sh -c '"$RUTTER" show capacity | grep "routes by source or tos .*10.9.1.0/24: tos 0x10 only"'
on r ip rule add from 10.77.0.0/16 lookup 100
heeds_not='does not follow the policy rule .*from 10.77.0.0/16 lookup 100'
wait_for 5 sh -c "\"\$RUTTER\" show system | grep '$heeds_not'"
told=$(on r "$RUTTER" doctor) || [ $? = 1 ] || fail "doctor"
assert_match "$told" "policy rules .*the first: .*from 10.77.0.0/16 lookup 100" "the rule in doctor"
assert_match "$told" "refused so far .*routes by source or tos: 1" "the route in doctor"
on r ip rule del from 10.77.0.0/16
wait_for 5 sh -c "! \"\$RUTTER\" show system | grep '$heeds_not'"
wait_for 15 grep "routes by source or tos: 1 refused" "$TMP/rutter.log"
