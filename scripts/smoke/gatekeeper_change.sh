# Protections come, change and go while packets flow: other protections lose no packet; flows stay,
# or are forgotten on request. In shadow mode every packet is judged, and every packet passes; a Grantor
# in shadow, a Rutter of its own, decides about the copies and forwards none. A link at the front falls and
# comes back.
. "$(dirname "$0")/lib.sh"
. "$SMOKE/shield.sh"

shield_hosts
host s
link s v0 r v2 1600
link s v1 g eth1
on g ip address add 10.0.2.3/24 dev eth0
on g ip route add local 198.51.100.0/24 dev lo
{
	printf 'workers = [0, 1]\n'
	two_ports "mtu = 1600"
	port p2 v2 10.0.3.1/24 "" "mtu = 1600"
	shield_section '"p0"' '"p1", "p2"'
	for prefix in 203.0.113.0/24 198.51.100.0/24; do
		printf '[[route]]\nprefix = "%s"\nvia = "10.0.2.2"\n' $prefix
	done
} | router_start
wait_for 10 grantors_found
grantor_start 10.0.1.2/32=grant:4000:600:60000:60000 10.0.1.66/32=decline:600 10.0.1.67/32=grant:1000:600:60000:60000 \
	10.0.1.72/32=decline:600 10.0.1.73/32=grant:1000:600:60000:60000
watch g
bare_are() { [ "$(came bare)" = "$1" ]; }
assert_ping c 203.0.113.5
wait_for 5 known 10.0.1.2
forwarded=$(kernel_forwarded r)

# A client's packets while other protections come, change and go.
{ client_sends 10.0.1.2 203.0.113.5 --count 3000 --rate 500 >/dev/null; } &
stream=$!
for n in $(seq 1 60); do
	rutter gatekeeper protect add 198.51.100.$n/32 via 10.0.2.2
	[ $((n % 3)) != 0 ] || rutter gatekeeper protect change 198.51.100.$n/32 via 10.0.2.3 weight 2 via 10.0.2.2
	[ $((n % 2)) != 0 ] || rutter gatekeeper protect del 198.51.100.$n/32
done
wait $stream
sent_on() { [ "$(heard "inner=10.0.1.2>203.0.113.5 .*bytes=45000056")" -ge "$1" ]; }
wait_for 5 sent_on 3000
assert_eq "$(rutter gatekeeper show -j | json 'x["protections"]')" 32 "protections"
assert_eq "$(on r ip route show proto 199 | grep -c 'blackhole 198.51.100')" 30 "routes of protections"

# Other Grantors: flows stay as they are, and go to the new one. With `--flush` they ask again.
requests() { heard "dscp=41 .*inner=10.0.1.2>203.0.113.5 "; }
asked=$(requests)
rutter gatekeeper protect change 203.0.113.0/24 via 10.0.2.3
to_the_other() {
	client_sends 10.0.1.2 203.0.113.5 >/dev/null
	heard_so_many 1 "outer=10.0.2.1>10.0.2.3 dscp=1 .*inner=10.0.1.2>203.0.113.5 "
}
wait_for 10 to_the_other
assert_eq "$(requests)" "$asked" "requests after a change of Grantors"
rutter gatekeeper protect change 203.0.113.0/24 via 10.0.2.2 --flush
asks_again() {
	client_sends 10.0.1.2 203.0.113.5 >/dev/null
	[ "$(requests)" -gt "$asked" ]
}
wait_for 10 asks_again

# Flushed by filters: by ends, by state.
client_sends 10.0.1.66 203.0.113.5 >/dev/null
client_sends 10.0.1.67 203.0.113.5 >/dev/null
wait_for 5 flows_are 1 declined from 10.0.1.66
wait_for 5 flows_are 1 granted from 10.0.1.67
assert_match "$(rutter gatekeeper flush state declined)" "^1 flows" "flows flushed by state"
flows_are 0 declined && flows_are 1 granted from 10.0.1.67 || fail "other flows went"
assert_match "$(rutter gatekeeper flush from 10.0.1.67 to 203.0.113.5)" "^1 flows" "flows flushed by their ends"
assert_match "$(rutter gatekeeper flush to 198.51.100.0/24)" "^0 flows" "flows of nobody"

# A protection is deleted: nothing passes; it is added again, and the client asks again.
rutter gatekeeper protect del 203.0.113.0/24
flows_are 0 granted to 203.0.113.0/24 || fail "flows of a protection that has gone"
before=$(drops front_to_back)
client_sends 10.0.1.2 203.0.113.5 --count 20 >/dev/null
dropped() { [ $(($(drops front_to_back) - before)) -ge 20 ]; }
wait_for 5 dropped
rutter gatekeeper protect add 203.0.113.0/24 via 10.0.2.2
assert_ping c 203.0.113.5
assert_eq "$(came bare)" 0 "packets that passed without a grant"

# Refused, with both prefixes named: it would be a hole in the shield.
assert_status 2 rutter gatekeeper protect add 203.0.113.128/25 bypass
hole="203.0.113.128/25.*203.0.113.0/24|203.0.113.0/24.*203.0.113.128/25"
assert_match "$(cat "$TMP/status.out")" "$hole" "a hole in a shield"
assert_status 2 rutter gatekeeper protect add 10.0.2.0/25 via 10.0.2.2
assert_status 2 rutter gatekeeper protect add 203.0.113.0/24 via 10.0.2.2
assert_status 1 rutter gatekeeper protect del 203.0.113.0/25

# In shadow mode a declined client passes, too, and is counted; afterwards it does not.
client_sends 10.0.1.66 203.0.113.5 >/dev/null
wait_for 5 flows_are 1 declined from 10.0.1.66
client_sends 10.0.1.66 203.0.113.5 --count 10 >/dev/null
declines="next(c['count'] for p in x if p['protect']['prefix'] == '203.0.113.0/24' for c in p['drops'] if c['what'] == 'shield.declined')"
ten_declined() { rutter gatekeeper protect -j | json "$declines >= 10" | found True; } # by protection and reason
wait_for 5 ten_declined
assert_eq "$(came bare)" 0 "declined packets that passed"
rutter gatekeeper show | found '^203\.0\.113\.0/24  *shield\.declined  *[0-9]' || fail "drops by protection are not shown"
rutter gatekeeper shadow 203.0.113.0/24 on
rutter gatekeeper shadow | found 203.0.113.0/24
verdict() { # OF NAME: of 203.0.113.0/24
	rutter gatekeeper protect -j | json "next(p['$1']['$2'] for p in x if p['protect']['prefix'] == '203.0.113.0/24')"
}
assert_eq "$(verdict shadow_verdicts requests)" 0 "real verdicts among those of the shadow"
asked=$(verdict verdicts requests)
declined=$(verdict verdicts declined)
[ "$declined" -gt 0 ] || fail "nothing was declined before the shadow"
client_sends 10.0.1.66 203.0.113.5 --count 20 --rate 200 >/dev/null
wait_for 5 bare_are 20
client_sends 10.0.1.2 203.0.113.5 --count 20 --rate 200 >/dev/null
wait_for 5 bare_are 40
shadow_counts() { [ "$(verdict shadow_verdicts requests)" -gt 0 ]; }
wait_for 5 shadow_counts
assert_eq "$(verdict verdicts requests) $(verdict verdicts declined)" "$asked $declined" "real verdicts in shadow"
rutter gatekeeper show | found "would be " || fail "what the shadow would do is not shown"
rutter gatekeeper show -j | json "sum(c['count'] for c in x['shadow_requests']) > 0" | found True

# A Grantor marked `shadow` gets a copy of each request, byte for byte, and no other Grantor does; the
# packets themselves pass as before, whatever it decides.
to() { echo "outer=10.0.2.1>$1 .*inner=$2>203.0.113.5 "; }
rutter gatekeeper protect change 203.0.113.0/24 via 10.0.2.2 via 10.0.2.3 weight 2 shadow
rutter gatekeeper shadow | found "203.0.113.0/24 .*10.0.2.3" || fail "the shadow's Grantor is not shown"
before=$(came bare)
inner=$(client_sends 10.0.1.71 203.0.113.5 --count 5 --rate 100)
wait_for 5 heard_so_many 5 "$(to 10.0.2.3 10.0.1.71)bytes=$inner said=drop"
before=$((before + 5))
wait_for 5 bare_are $before
for client in 72:declined 73:granted; do
	source=10.0.1.${client%:*} state=${client#*:}
	client_sends $source 203.0.113.5 >/dev/null
	wait_for 5 flows_are 1 "$state" from $source
	client_sends $source 203.0.113.5 --count 10 --rate 200 >/dev/null
	before=$((before + 11))
	wait_for 5 bare_are $before
	assert_eq "$(heard "$(to 10.0.2.3 $source)")" 1 "copies of packets that were $state"
done
assert_eq "$(heard "$(to 10.0.2.2 '10\.0\.1\.7[123]')")" 0 "packets in shadow to a Grantor that is not marked"
# A real Grantor in shadow.
shadow() { # COMMAND …: as its client
	RUTTER_SOCKET=$TMP/shadow.sock "$RUTTER" "$@"
}
{
	printf 'workers = [1]\n'
	port p0 v0 10.0.3.2/24 "" "mtu = 1600"
	port p1 v1 10.0.4.1/24 ""
	printf '[grantor]\ngatekeepers = ["10.0.2.1/32", "10.0.3.1/32"]\nserves = ["203.0.113.0/24"]\n'
	printf 'policy = "decline 600"\nshadow = true\n'
	printf '[[route]]\nprefix = "203.0.113.0/24"\nvia = "10.0.4.2"\n'
} >"$TMP/shadow.toml"
RUTTER_SOCKET=$TMP/shadow.sock background shadow ip netns exec "${P}s" "$RUTTER" run --config "$TMP/shadow.toml"
shadow_pid=$last_pid
wait_for 30 shadow show system
rutter gatekeeper protect change 203.0.113.0/24 via 10.0.2.2 via 10.0.3.2 shadow
wait_for 10 grantors_found
of_shadow() { # COUNTER
	shadow grantor show -j | json "next(c['count'] for c in x['counts'] if c['what'] == '$1')"
}
client_sends 10.0.1.74 203.0.113.5 >/dev/null
before=$((before + 1))
wait_for 5 flows_are 1 declined from 10.0.1.74
client_sends 10.0.1.74 203.0.113.5 --count 10 --rate 200 >/dev/null
before=$((before + 10))
wait_for 5 bare_are $before
assert_eq "$(of_shadow requests) $(of_shadow 'verdicts: drop') $(of_shadow 'decisions sent')" "1 1 1" \
	"requests, verdicts and decisions of the Grantor in shadow"
assert_eq "$(shadow grantor show -j | json "[(d['what'], d['count']) for d in x['drops'] if d['count']]")" \
	"[('grantor.shadow', 1)]" "what the Grantor in shadow dropped"
kill -TERM "$shadow_pid"
wait_gone "$shadow_pid" 200 || fail "the Grantor in shadow does not end on SIGTERM"

rutter gatekeeper protect change 203.0.113.0/24 via 10.0.2.2
rutter gatekeeper shadow 203.0.113.0/24 off
before=$(came bare)
wait_for 10 assert_ping c 203.0.113.5
client_sends 10.0.1.66 203.0.113.5 --count 20 --rate 200 >/dev/null
sleep 0.5
assert_eq "$(came bare)" "$before" "packets that passed without a grant, after the shadow"
assert_eq "$(kernel_forwarded r)" "$forwarded" "packets that the kernel has forwarded"

# A link at the front falls and comes back: flows stay, and the client is served again.
port_is() { # STATE
	rutter show ports | found "^p0 .*$1"
}
asked=$(requests)
on c ip link set eth0 down
wait_for 5 port_is down
assert_match "$(on r ip route show proto 199)" 'blackhole 203.0.113.0/24' "the protection while the link is down"
host_up c 10.0.1.1 2001:db8:1::1
wait_for 10 port_is up
wait_for 10 assert_ping c 203.0.113.5
flows_are 1 granted from 10.0.1.2/32 || fail "the grant is gone with the link"
assert_eq "$(requests)" "$asked" "requests after the link came back"
router_stop
