# The commands of a shield, with two workers: mistakes of its configuration have their place; flows
# are listed and flushed; protections come and go together with their routes in the kernel; a shadow
# judges and lets packets pass; the floods that the shield withstands, and what hinders it. A prefix
# without a Grantor is withdrawn if configured.
#
#   c 10.0.1.2, 2001:db8:1::2 ── v0 front r back v1 ── g 10.0.2.9, 2001:db8:2::9 ─ tun ─ 203.0.113.5
. "$(dirname "$0")/lib.sh"
need python3
[ "$(nproc)" -gt 1 ] || skip "one core"

host r
station c v0 10.0.1.2/24 10.0.1.1 2001:db8:1::2/64 2001:db8:1::1
station g v1 10.0.2.9/24 10.0.2.1 2001:db8:2::9/64 2001:db8:2::1
on c ip address add 10.0.1.3/24 dev eth0
# The protected hosts are the Grantor's own addresses.
on g ip address add 203.0.113.5/24 dev lo
on g ip address add 198.18.0.5/24 dev lo
on g ip -6 address add 2001:db8:9::5/64 dev lo nodad

ports() {
	port p0 v0 10.0.1.1/24 2001:db8:1::1/64
	port p1 v1 10.0.2.1/24 2001:db8:2::1/64
}
# Mistakes are reported with their place.
mistake() { # WANTED [CONFIGURATION on standard input]
	cat >"$TMP/wrong.toml"
	! rutter config check "$TMP/wrong.toml" >"$TMP/said" 2>&1 || fail "taken: $1"
	grep -Fq -- "$1" "$TMP/said" || { cat "$TMP/said"; fail "said something else: $1"; }
}
{ ports; echo '[gatekeeper]'; } | mistake "gatekeeper: \`front\` is missing"
{
	ports
	cat <<-END
		[gatekeeper]
		front = ["p0"]
		back = ["p1"]
		[[gatekeeper.protect]]
		prefix = "203.0.113.0/24"
		grantors = ["10.0.2.9"]
		[[gatekeeper.protect]]
		prefix = "203.0.113.64/26"
		action = "bypass"
	END
} | mistake "203.0.113.64/26 (bypass) and 203.0.113.0/24 (protect) overlap"

config() { # [KEYS OF GATEKEEPER]
	cat <<-END
		workers = [0, 1]
		$(ports)
		[gatekeeper]
		front = ["p0"]
		back = ["p1"]
		entries = 65536
		${1:-}
		[[gatekeeper.protect]]
		prefix = "203.0.113.0/24"
		grantors = ["10.0.2.9"]
		[[gatekeeper.protect]]
		prefix = "2001:db8:9::/48"
		grantors = ["2001:db8:2::9"]
	END
}
config | router_start

# A protection is a blackhole route in the kernel, and nothing is forwarded from the tap.
on r ip route show proto 199 | found "blackhole 203.0.113.0/24" || fail "203.0.113.0/24 is not shown"
on r ip -6 route show proto 199 | found "blackhole 2001:db8:9::/48" || fail "2001:db8:9::/48 is not shown"
on r ip rule | found "1105:.*iif p0 prohibit" || fail "no rule for the front"
on r ip -6 rule | found "1105:.*iif p0 prohibit" || fail "no rule for the front's IPv6"

GRANT=grant:1024:300:240000:3000
echo "10.0.1.2/32=$GRANT 10.0.1.3/32=decline:60 2001:db8:1::/64=$GRANT" >"$TMP/rules"
background grantor ip netns exec "${P}g" python3 "$SMOKE/grantor.py" answer eth0 tun0 10.0.2.9 2001:db8:2::9 \
	--reread "$TMP/rules"
is_ready grantor

reachable() { rutter gatekeeper show -j | found '"by":\["p1"\],"fault":""'; }
wait_for 20 reachable

# A granted client gets through, and a declined one does not.
assert_ping c 203.0.113.5 -I 10.0.1.2
state() { # SOURCE
	rutter gatekeeper flows from "$1" -j | sed -n 's/.*"state":"\([a-z]*\)".*/\1/p'
}
state_is() { [ "$(state "$1")" = "$2" ]; }
on c ping -n -q -c 1 -W 1 -I 10.0.1.3 203.0.113.5 >/dev/null || true # asks; those behind it find the decision
wait_for 5 state_is 10.0.1.3 declined
assert_no_ping c 203.0.113.5 -I 10.0.1.3
assert_ping c 2001:db8:9::5
grep -q "outer=10.0.2.1>10.0.2.9 dscp=41 .*inner=10.0.1.2>203.0.113.5 .* said=grant" "$TMP/grantor.log" ||
	fail "no request of 10.0.1.2"
grep -q "outer=10.0.2.1>10.0.2.9 dscp=1 .*inner=10.0.1.2>203.0.113.5 " "$TMP/grantor.log" ||
	fail "nothing of 10.0.1.2 was granted"
[ "$(grep -c "inner=10.0.1.3>203.0.113.5 " "$TMP/grantor.log")" = 1 ] || fail "10.0.1.3 asked more than once"
grep -q "outer=2001:db8:2::1>2001:db8:2::9 dscp=1 " "$TMP/grantor.log" || fail "nothing of IPv6 was granted"

# Flows are listed, and none is left after a flush: the client asks again.
[ "$(state 10.0.1.2)" = granted ] || fail "the flow of 10.0.1.2 is $(state 10.0.1.2)"
[ "$(state 10.0.1.3)" = declined ] || fail "the flow of 10.0.1.3 is $(state 10.0.1.3)"
rutter gatekeeper flows state granted | found "10.0.1.2 .*1,024 KiB/s" || fail "no budget is shown"
rutter gatekeeper flows -n 1 -j 2>"$TMP/said" | wc -l | found "^1$" || fail "one flow was asked for"
found "the first 1 flows are shown" <"$TMP/said" || fail "that there are more is not said"
rutter gatekeeper flush state declined | found "^1 flows" || fail "one flow was declined"
[ -z "$(state 10.0.1.3)" ] || fail "a flushed flow is there"
# Those of one Grantor, which has the IPv4 ones.
of_grantor() { rutter gatekeeper flows -n 0 -j grantor "$1" | wc -l; }
assert_eq "$(rutter gatekeeper flush -j grantor 10.0.2.77)" '{"flows":0}' "flows of nobody's Grantor"
mine=$(of_grantor 10.0.2.9) others=$(of_grantor 2001:db8:2::9)
[ "$mine" -gt 0 ] && [ "$others" -gt 0 ] || fail "flows of the two Grantors: $mine, $others"
assert_eq "$(rutter gatekeeper flush -j grantor 10.0.2.9 | json "x['flows']")" "$mine" "flows of a Grantor"
assert_eq "$(of_grantor 10.0.2.9) $(of_grantor 2001:db8:2::9)" "0 $others" "flows of it and of the other one after that"
echo "10.0.1.0/24=$GRANT" >"$TMP/rules"
assert_ping c 203.0.113.5 -I 10.0.1.3

# Protections come, change and go while the router runs, together with their routes in the kernel.
assert_no_ping c 198.18.0.5
rutter gatekeeper protect add 198.18.0.0/24 via 10.0.2.9
on r ip route show proto 199 | found "blackhole 198.18.0.0/24" || fail "198.18.0.0/24 is not shown"
assert_ping c 198.18.0.5 -I 10.0.1.2
rutter gatekeeper protect change 198.18.0.0/24 via 10.0.2.9 weight 3 --flush
rutter gatekeeper protect | found "198.18.0.0/24 .*10.0.2.9 weight 3" || fail "the weight is not shown"
[ -z "$(rutter gatekeeper flows of 198.18.0.0/24 -j)" ] || fail "flows are there after a change that flushes"
! rutter gatekeeper protect add 198.18.0.128/25 bypass 2>"$TMP/said" || fail "a hole in the shield"
found "198.18.0.128/25 (bypass) and 198.18.0.0/24 (protect)" <"$TMP/said" || fail "the hole names both"
rutter gatekeeper protect del 198.18.0.0/24
! on r ip route show proto 199 | found "198.18.0.0/24" || fail "198.18.0.0/24 is shown still"
assert_no_ping c 198.18.0.5

# A shadow judges, and lets pass.
on r ip route add 203.0.113.0/24 via 10.0.2.9 dev p1
echo "0.0.0.0/0=drop" >"$TMP/rules"
assert_eq "$(rutter gatekeeper shadow -j)" "[]" "shadows at first"
assert_eq "$(rutter gatekeeper shadow -j 203.0.113.0/24 on)" '{"warnings":[]}' "what turning it on says"
assert_ping c 203.0.113.5 -I 10.0.1.3
assert_eq "$(rutter gatekeeper shadow -j | json "[(p['protect']['prefix'], p['protect']['shadow']) for p in x]")" \
	"[('203.0.113.0/24', True)]" "shadows"
rutter gatekeeper shadow -j | json "x[0]['shadow_verdicts']['requests'] > 0" | found True || fail "its verdicts are not counted"
rutter gatekeeper shadow | found "203.0.113.0/24 .*nobody" || fail "the shadow is not listed"
doctor() {
	rutter doctor >"$TMP/doctor" || true # it finds much on a small machine
	found "$1" <"$TMP/doctor" || { cat "$TMP/doctor"; return 1; }
}
doctor "shadow .*203.0.113.0/24 asks no Grantor" || fail "doctor does not name the mute shadow"
rutter gatekeeper shadow 203.0.113.0/24 off
assert_no_ping c 203.0.113.5 -I 10.0.1.3

# The floods that it withstands, and the faults that doctor finds.
rutter show capacity >"$TMP/capacity"
for line in "flows " "decided flows " "new flows a second .*50,41" "requests a second .*63,775" \
	"protections " "front prefixes "; do
	found "$line" <"$TMP/capacity" || { cat "$TMP/capacity"; fail "no capacity: $line"; }
done
doctor "room for the outer header .*1500 bytes and 40 more do not fit the mtu of p1 (1500)" ||
	fail "doctor does not say that the mtu is too small"

router_stop
[ -z "$(on r ip route show proto 198; on r ip route show proto 199)" ] || fail "routes are left"
! on r ip rule | found "1105:" || fail "a rule is left"

# Without a Grantor a prefix is withdrawn if configured, and announced again once there is one.
config "withdraw = true" | router_start
wait_for 20 reachable
shown() { on r ip route show proto 199 | found "blackhole 203.0.113.0/24"; }
wait_for 5 shown # routes follow what is reachable
on g ip link set eth0 down
withdrawn() { ! shown && rutter gatekeeper protect | found "203.0.113.0/24 .*not shown to routing daemons"; }
wait_for 20 withdrawn
doctor "Grantors .*10.0.2.9" || fail "doctor does not name the Grantor"
host_up g 10.0.2.1 2001:db8:2::1
wait_for 20 shown
router_stop
