# A shield, and a stand-in for its Grantor: clients ask, and are granted or declined; the packets to
# the Grantor, byte for byte; budgets and renewals; invalid decisions.
. "$(dirname "$0")/lib.sh"
. "$SMOKE/shield.sh"
python3 "$SMOKE/grantor.py" check

shield_hosts
on c ip address add 10.0.1.66/24 dev eth0
on c ip address add 2001:db8:1::66/64 dev eth0 nodad preferred_lft 0 # only where it is asked for
shield_config | router_start
wait_for 10 grantors_found
grantor_start \
	10.0.1.2/32=grant:2000:600:60000:60000 2001:db8:1::2/128=grant:2000:600:60000:60000 \
	10.0.1.66/32=decline:600 2001:db8:1::66/128=decline:600 \
	10.0.1.67/32=grant:2:600:60000:60000 2001:db8:1::67/128=grant:2:600:60000:60000 \
	10.0.1.68/32=grant:100:600:500:1000 \
	10.0.1.69/32=drop 2001:db8:1::69/128=drop \
	10.9.0.0/16=grant:100:600:60000:60000

# A client asks once, and is served. (Once, if its next packet comes after the decision.)
first_asks() { # STATE FLOW [ARGUMENTS OF ping]: its first packet, until it is decided
	on c ping -n -q -c 1 -W 1 "${@:3}" "${2#*>}" >/dev/null 2>&1 || true
	wait_for 5 flows_are 1 "$1" from "${2%>*}" to "${2#*>}"
}
for flow in 10.0.1.2'>'203.0.113.5 2001:db8:1::2'>'2001:db8:71::5; do
	first_asks granted "$flow"
	wait_for 5 known "${flow%>*}"
	assert_ping c "${flow#*>}"
done
forwarded=$(kernel_forwarded r) # the first answers, while it looked for the client
for flow in 10.0.1.2'>'203.0.113.5 2001:db8:1::2'>'2001:db8:71::5; do
	assert_eq "$(grep -c "dscp=41 .*inner=$flow .*said=grant" "$TMP/heard")" 1 "requests of $flow"
	assert_match "$(cat "$TMP/heard")" "dscp=1 .*inner=$flow .*said=silent" "packets that were granted"
done
background web ip netns exec "${P}g" python3 -c '
import http.server, socketserver
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self): self.send_response(200); self.end_headers(); self.wfile.write(b"served" * 20000)
socketserver.TCPServer.allow_reuse_address = True
server = socketserver.TCPServer(("203.0.113.80", 80), Page); print("ready", flush=True); server.serve_forever()'
is_ready web
page() {
	on c python3 -c 'import urllib.request; print(len(urllib.request.urlopen("http://203.0.113.80/", timeout=20).read()))'
}
assert_eq "$(page)" 120000 "the page's bytes"

# Another client is declined: its first packet asks, no other packet leaves.
first_asks declined 10.0.1.66'>'203.0.113.5 -I 10.0.1.66
first_asks declined 2001:db8:1::66'>'2001:db8:71::5 -I 2001:db8:1::66
assert_no_ping c 203.0.113.5 -I 10.0.1.66
assert_no_ping c 2001:db8:71::5 -I 2001:db8:1::66
for source in 10.0.1.66 2001:db8:1::66; do
	assert_eq "$(heard "inner=$source>")" 1 "packets of $source that left"
	assert_eq "$(flows declined from $source)" 1 "flows declined"
done

# The packet that the Grantor gets: the original packet, inside of another.
last_heard() { # REGEX
	grep -E -- "$1" "$TMP/heard" | tail -n 1
}
as_it_should_be() { # SOURCE DESTINATION ECN OUTER-ECN TTL OTHER ARGUMENTS
	local inner line
	inner=$(client_sends "$1" "$2" --ecn "$3" --ttl 17 "${@:7}")
	wait_for 5 heard_so_many 1 "bytes=$inner "
	line=$(last_heard "bytes=$inner ")
	assert_match "$line" "dscp=[0-9]+ ecn=$4 ttl=$5 id=0 df=1 sum=ok len=$6 " "the header around it"
}
for ecn in 0 1 2 3; do
	as_it_should_be 10.0.1.69 203.0.113.1$ecn $ecn $((ecn == 3 ? 2 : ecn)) 64 106 --dscp 46 $( ((ecn % 2)) && echo --df)
	as_it_should_be 2001:db8:1::69 2001:db8:71::1$ecn $ecn $((ecn == 3 ? 2 : ecn)) 255 126 --dscp 46
done
# A granted packet is wrapped, too.
as_it_should_be 10.0.1.2 203.0.113.5 3 2 64 106
assert_match "$(last_heard "inner=10.0.1.2>203.0.113.5 ")" " dscp=1 " "its DSCP"

# The first seven packets of a new flow have a newcomer's priority; the eighth has that of an
# impatient sender. It is that of 4 to 137 ms: where a busy machine had it come sooner or later than
# 10 ms after the seventh, another flow is asked for.
impatient() { # LAST BYTE OF DESTINATION
	local to=203.0.113.$1
	client_sends 10.0.1.69 $to --count 8 --rate 100 >/dev/null
	wait_for 5 heard_so_many 8 "inner=10.0.1.69>$to "
	grep "inner=10.0.1.69>$to " "$TMP/heard" | grep -o " dscp=[0-9]*" >"$TMP/priorities"
	assert_eq "$(head -n 7 "$TMP/priorities" | grep -c "=41$")" 7 "packets with priority 41"
	tail -n 1 "$TMP/priorities" | found "=3[5-9]$"
}
impatient 70 || impatient 71 || impatient 72 || fail "the eighth's priority: $(tail -n 1 "$TMP/priorities")"

# 2 KiB a second: four frames of 442 bytes pass. (The first packet asked; the second opens the budget.)
BUDGETS=("10.0.1.67 203.0.113.5" "2001:db8:1::67 2001:db8:71::5")
for flow in "${BUDGETS[@]}"; do client_sends $flow --size 442 >/dev/null; done
for flow in "${BUDGETS[@]}"; do wait_for 5 flows_are 1 granted from "${flow% *}"; done
for round in 1 2; do
	sleep 1.2
	for flow in "${BUDGETS[@]}"; do client_sends $flow --size 442 --count 20 >/dev/null; done
	for flow in "${BUDGETS[@]}"; do wait_for 5 heard_so_many $((4 * round)) "dscp=1 .*inner=${flow% *}>"; done
	sleep 0.2
	for flow in "${BUDGETS[@]}"; do
		assert_eq "$(heard "dscp=1 .*inner=${flow% *}>")" $((4 * round)) "frames of 442 bytes, round $round"
	done
done

# Packets of a grant ask for its renewal before it ends, and pass in any case.
begin=$(now_ms)
client_sends 10.0.1.68 203.0.113.5 >/dev/null
wait_for 5 flows_are 1 granted from 10.0.1.68
assert_eq "$(heard "dscp=41 .*inner=10.0.1.68>.*said=grant")" 1 "requests for a flow's first packet"
client_sends 10.0.1.68 203.0.113.5 --count 50 --rate 20 >/dev/null
ms=$(($(now_ms) - begin))
wait_for 5 heard_so_many 51 "inner=10.0.1.68>"
renewals=$(heard "dscp=2 .*inner=10.0.1.68>.*said=grant")
[ "$renewals" -ge 2 ] || fail "$renewals renewals in 2.5 s, one each 0.5 s expected"
assert_at_most "$renewals" $((ms / 500)) "renewals in $ms ms"
assert_eq "$(heard "dscp=1 .*inner=10.0.1.68>")" $((50 - renewals)) "granted packets of 50"

# Each worker has flows, and each flow has its decision.
client_sends 10.9.0.1 203.0.113.9 --count 200 --sources 200 --rate 500 >/dev/null
wait_for 10 heard_so_many 200 "inner=10.9.0..*said=grant"
wait_for 5 flows_are 200 granted from 10.9.0.0/16
workers=$(rutter gatekeeper flows -n 0 -j from 10.9.0.0/16 | grep -o '"worker": *[0-9]*' | sort -u | wc -l)
assert_eq "$workers" 2 "workers with flows"

# Decisions without a request make flows; an invalid decision ends a message, and those before it hold.
tells "10.7.0.1>203.0.113.5=decline:60" "10.7.0.2>203.0.113.5=bad" "10.7.0.3>203.0.113.5=decline:60"
wait_for 5 flows_are 1 declined from 10.7.0.0/16
assert_eq "$(decisions unknown_type)" 1 "decisions of an unknown type"
on g python3 "$SMOKE/grantor.py" tell eth0 "$(mac_of r p1)" 2001:db8:2::2 2001:db8:2::1 \
	"2001:db8:7::1>2001:db8:71::5=decline:60" "2001:db8:7::2>2001:db8:71::5=grant:5:60:50000:1000"
wait_for 5 flows_are 1 declined from 2001:db8:7::/48
wait_for 5 flows_are 1 granted from 2001:db8:7::/48
refused() { # NAME SPOIL [COUNT]: each of both families has its counter
	local before
	before=$(decisions "$1")
	tells "10.7.0.9>203.0.113.5=decline:60" --spoil "$2"
	on g python3 "$SMOKE/grantor.py" tell eth0 "$(mac_of r p1)" 2001:db8:2::2 2001:db8:2::1 \
		"2001:db8:7::9>2001:db8:71::5=decline:60" --spoil "$2"
	counted() { [ "$(decisions "$1")" = "$2" ]; }
	wait_for 5 counted "$1" $((before + ${3:-2}))
}
refused ports source-port
refused no_checksum zero-checksum
refused bad_checksum wrong-checksum
refused udp_length short
refused udp_length trailing
refused version version
refused reserved reserved
refused decision_cut_off cut
refused fragment fragment
no_other() { # nothing of what was refused
	flows_are 1 declined from 10.7.0.0/16 && flows_are 0 granted from 10.7.0.0/16 &&
		flows_are 1 declined from 2001:db8:7::/48
}
no_other || fail "a refused message was heard"
on g python3 "$SMOKE/grantor.py" tell eth0 "$(mac_of r p1)" 10.0.2.3 10.0.2.1 "10.7.0.9>203.0.113.5=decline:60"
on g python3 "$SMOKE/grantor.py" tell eth0 "$(mac_of r p1)" 10.0.2.2 10.0.2.1 "10.7.0.9>192.0.2.5=decline:60"
on c python3 "$SMOKE/grantor.py" tell eth0 "$(mac_of r p0)" 10.0.2.2 10.0.2.1 "10.7.0.9>203.0.113.5=grant:1:60:1:1"
fates() { [ "$(decisions not_its_grantor) $(decisions unprotected)" = "1 1" ]; }
wait_for 5 fates
no_other || fail "somebody else's decision was heard"

assert_eq "$(kernel_forwarded r)" "$forwarded" "packets that the kernel has forwarded"

# Requests go when their time has come, though no packet comes: workers that sleep sweep, too.
requests() { rutter gatekeeper show -j | json "x['flows']['held'][0]"; }
client_sends 10.0.1.69 203.0.113.99 --count 20 --sources 20 >/dev/null
some_ask() { [ "$(requests)" -ge 1 ]; }
wait_for 2 some_ask
none_asks() { [ "$(requests)" = 0 ]; }
wait_for 20 none_asks
router_stop
