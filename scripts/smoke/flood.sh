# A flood of packets for the router itself costs the routed traffic almost nothing; a storm of
# forged packets of routing protocols and neighbour discovery on one port costs the other ports no
# session, no routed packet, no ping.
. "$(dirname "$0")/lib.sh"
need ping ethtool python3 bird birdc

# A device of DPDK's has a longer queue here than the usual 512 frames: four tenths of a second of the
# flood. `packet` has 2,048 frames, a tenth.
readonly QUEUE=8192

two_hosts
on r sysctl -qw net.ipv6.conf.default.accept_ra=2 # as a machine with containers has it
two_ports | sed "s/iface=v[01]/&,framecnt=$QUEUE/" | router_start
assert_ping a 10.0.2.2
assert_ping a 2001:db8:2::2

punted() { rutter show system -j | json 'x["accounting"]["punted"]'; }
lost() { rutter show ports -j | json 'next(p["rx_missed"] for p in x if p["name"] == "p0")'; }

floods() { # ARGUMENTS OF flood: status 1 where packets of others were lost
	local before begin limit=1000 sent took_ms status=0
	before=$(punted) begin=$(now_ms)
	frames a flood eth0 "$(mac_of r p0)" "$@" --rate 20000 --seconds 3 >"$TMP/sent" &
	sleep 0.5
	(assert_no_loss a 10.0.2.2 50 && assert_no_loss a 2001:db8:2::2 50) || status=1
	wait $! || fail "the flood has ended early: $*"
	sent=$(cat "$TMP/sent")
	[ "$sent" -gt 10000 ] || skip "this machine sends no flood: $sent packets in 3 s"
	[ "$2" != 10.0.1.1 ] || limit=10000
	took_ms=$(($(now_ms) - begin))
	assert_at_most $((($(punted) - before) * 1000 / took_ms)) $((limit * 3 / 2 + 300)) "packets a second handed to the kernel ($*)"
	return $status
}

# Where the router got no time to take what came, its device has counted some as missed: such a round
# is done again.
for flood in "10.0.1.2 10.0.2.2 --ttl 1" "2001:db8:1::2 2001:db8:2::2 --ttl 1" "10.0.1.2 10.0.2.99" "10.0.1.2 10.0.1.1"; do
	for round in 1 2 3; do
		missed=$(lost)
		# shellcheck disable=SC2086 # several words
		! floods $flood || continue 2
		[ "$(lost)" -gt "$missed" ] || break
	done
	fail "packets lost under a flood ($flood), round $round; missed by the device: $(($(lost) - missed))"
done
assert_match "$(rutter show drops)" "punt|rate|limit" "what was over the rate among the drops"

# While the router is stopped, more frames come than its device's queue holds: they are counted and
# reported.
mac=$(mac_of r p0) sent=0
kill -STOP "$router_pid"
for ((i = 0; i < 10 && sent < 2 * QUEUE; i++)); do
	sent=$((sent + $(frames a flood eth0 "$mac" 10.0.1.2 10.0.2.2 --rate 20000 --seconds 1)))
done
kill -CONT "$router_pid"
told_of() { [ "$(lost)" -ge $1 ]; }
wait_for 10 told_of $((sent - QUEUE - 1000))
assert_match "$(rutter show drops)" "p0.rx_missed" "what devices lost among the drops"

# ----- a storm on one port: sessions, routed packets and pings of the others do not notice
router_stop
station c v2 10.0.3.2/24 10.0.3.1 2001:db8:3::2/64 2001:db8:3::1
{
	two_ports
	port p2 v2 10.0.3.1/24 2001:db8:3::1/64
} | router_start

# BIRD on the router and on both sides of it: at a, whose wire carries the storm, and at b.
ospf='hello 1; dead count 4; authentication cryptographic; password "smoke";'
bgp='hold time 6; keepalive time 2; connect retry time 1; error wait time 1, 2; connect delay time 1; ipv4 { import all; export none; };'
bird_in() { # NS ROUTER-ID OSPF-INTERFACES AS [NAME NEIGHBOUR AS] …
	local name=$1
	{
		printf 'router id %s;\nlog stderr all;\nprotocol device {}\nprotocol ospf v2 { debug { states, events };' "$2"
		printf ' ipv4 { import none; export none; }; area 0 { interface %s { %s }; }; }\n' "$3" "$ospf"
		local as=$4
		shift 4
		while [ $# -gt 0 ]; do
			printf 'protocol bgp %s { local as %s; neighbor %s as %s; debug { states }; %s }\n' "$1" "$as" "$2" "$3" "$bgp"
			shift 3
		done
	} >"$TMP/$name-bird.conf"
	background "$name-bird" ip netns exec "$P$name" bird -f -c "$TMP/$name-bird.conf" -s "$TMP/$name.ctl" -P "$TMP/$name.pid"
}
bird_in a 10.0.1.2 '"eth0"' 65003 to_router 10.0.1.1 65001
bird_in b 10.0.2.2 '"eth0"' 65002 to_router 10.0.2.1 65001
bird_in r 10.0.3.1 '"p0", "p1"' 65001 to_a 10.0.1.2 65003 to_b 10.0.2.2 65002
all_up() {
	[ "$(on r birdc -s "$TMP/r.ctl" show protocols | grep -c Established)" = 2 ] &&
		[ "$(on r birdc -s "$TMP/r.ctl" show ospf neighbors | grep -c Full)" = 2 ]
}
wait_for 40 all_up
sleep 2 # until the router has seen them, too
# When the sessions came up, in seconds, and how many adjacencies were lost.
sessions() { # NAME …
	on r birdc -s "$TMP/r.ctl" show protocols | grep -E "^($(IFS='|'; echo "$*")) .*Established" |
		awk '{ split($5, t, ":"); print $1, t[1] * 3600 + t[2] * 60 + t[3] }'
}
# A machine that has not run the router for two seconds at once, by its log and by the scheduler's count,
# cannot be asked for sessions that are lost after four and six.
was_run() {
	local silent waited
	waited=$(($(starved_ms) - starved_before))
	silent=$(python3 - "$TMP/rutter.log" <<-'END'
		import datetime, re, sys
		longest = since = 0
		for line in open(sys.argv[1], errors="replace"):
		    if found := re.match(r"(\S+)Z .*worker-0 (does not report|reports again)", line):
		        now = datetime.datetime.fromisoformat(found[1]).timestamp()
		        longest, since = (longest, now) if found[2] == "does not report" else (max(longest, now - since), now)
		print(int(1000 * longest))
	END
	)
	[ "$silent" -lt 2000 ] || [ "$waited" -lt "$silent" ] ||
		skip "this machine sends no flood: it did not run the router for $silent ms at once"
}
# A session is the same if it came up at the same time. BIRD computes that time anew at each
# question, so it varies by a millisecond.
assert_held() { # SESSIONS_BEFORE WHAT NAME …
	local before=$1 what=$2 now
	now=$(sessions "${@:3}")
	paste -d ' ' <(echo "$before") <(echo "$now") |
		awk 'NF != 4 || $1 != $3 || $2 - $4 > 0.5 || $4 - $2 > 0.5 { bad = 1 } END { exit bad }' ||
		{ was_run; fail "$what: $now, expected $before"; }
}
lost_adjacencies() { # ADDRESS REGEX
	grep -cE "Neighbor .*$1 .*from Full" "$TMP/r-bird.log" || true
}
assert_no_lost() { # ADDRESS REGEX, WHAT
	[ "$(lost_adjacencies "$1")" = 0 ] || { was_run; fail "OSPF adjacencies lost$2: $(lost_adjacencies "$1")"; }
}
routes_of_kernel() { on r ip -6 route show && on r ip -6 address show scope global | grep inet6; }
drops() { # REASON: of all nodes
	rutter show drops -j | json "sum(d['packets'] for d in x if d['reason'].split('.')[-1] == '$1')"
}
# The kernel thread's CPU time so far, in µs.
kernel_thread() { awk '{ print int($1 / 1000) }' "$(grep -l '^kernel$' /proc/"$router_pid"/task/*/comm | head -n 1 | xargs dirname)/schedstat"; }

declare -A own=([4]=10.0.1.1/24 [6]=2001:db8:1::1/64) net=([4]=10.0.2.0/24 [6]=2001:db8:2::/64)
mac=$(mac_of r p0)
storm() { # KIND FAMILY SECONDS REASON OF ITS DROPS [ARGUMENTS]
	local before dropped thread sent took
	before=$(punted) dropped=$(drops "$4") thread=$(kernel_thread)
	nice -n 19 ip netns exec "${P}a" python3 "$SMOKE/frames.py" storm eth0 "$mac" "$1" "${own[$2]}" "${net[$2]}" \
		--seconds "$3" "${@:5}" >"$TMP/storm" &
	local storming=$!
	sleep 1
	assert_no_loss c 10.0.2.2 50
	assert_no_loss c 2001:db8:2::2 50
	assert_no_loss c 10.0.3.1 20
	[ "$1" != exhaust ] || assert_ping c 2001:db8:2::77
	wait $storming
	read -r sent took <"$TMP/storm"
	before=$(($(punted) - before)) thread=$(($(kernel_thread) - thread))
	echo "storm $*: $((sent * 1000 / took)) packets a second sent, $((before * 1000 / took)) handed to the kernel," \
		"the kernel thread took $((thread / took / 10)).$((thread / took % 10)) % of a core"
	[ "$sent" -gt 10000 ] || skip "this machine sends no storm: $sent packets in $3 s"
	[ "$(drops "$4")" -gt $((dropped + 1000)) ] || fail "few drops as $4 ($*)"
}

starved_before=$(starved_ms)
before_all=$(sessions to_a to_b) kernel_before=$(routes_of_kernel)
on b ip address add 2001:db8:2::77/64 dev eth0 nodad
storm arp 4 3 new_neighbours
storm nd 6 3 new_neighbours
storm ra 6 3 new_neighbours
storm redirect 6 3 new_neighbours
storm ospf 4 6 strangers
storm syn 4 7 strangers
storm syn 6 3 strangers
storm exhaust 6 5 no_neighbour
storm martians 4 3 bad_source
storm martians 6 3 bad_source
assert_held "$before_all" "BGP sessions, also that over the flooded port" to_a to_b
assert_no_lost '10\.0\.[123]\.[0-9]+' ""
# However small the kernel's neighbour tables are: a full table would drop the hosts' entries first.
assert_eq "$(rutter show capacity -j | json "sum(c['refused'] for c in x if c['what'].startswith('kernel neighbours'))")" 0 \
	"neighbours that the kernel had no room for"
assert_eq "$(routes_of_kernel)" "$kernel_before" "the kernel's IPv6 routes and addresses, after strangers' advertisements"

# In the neighbour's own name: the present session stays, and so do the other ports' neighbours.
storm syn 4 7 control --peer 10.0.1.2
assert_held "$before_all" "BGP sessions, under a neighbour's forged address" to_a to_b
assert_no_lost '10\.0\.2\.2' " over the other port"
wait_for 40 all_up
