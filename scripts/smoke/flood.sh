# A flood of packets that end here costs the routed traffic almost nothing.
. "$(dirname "$0")/lib.sh"
need ping ethtool python3

# The devices' queues hold four tenths of a second of the flood: on a busy machine
# the router does not run for longer than the usual 512 frames last.
readonly QUEUE=8192

two_hosts
two_ports | sed "s/iface=v[01]/&,framecnt=$QUEUE/" | router_start
assert_ping a 10.0.2.2
assert_ping a 2001:db8:2::2

punted() { rutter show system -j | json 'x["accounting"]["punted"]'; }

for flood in "10.0.1.2 10.0.2.2 --ttl 1" "2001:db8:1::2 2001:db8:2::2 --ttl 1" "10.0.1.2 10.0.2.99" "10.0.1.2 10.0.1.1"; do
	before=$(punted) begin=$(date +%s%N)
	# shellcheck disable=SC2086
	frames a flood eth0 "$(mac_of r p0)" $flood --rate 20000 --seconds 3 >"$TMP/sent" &
	flooding=$!
	sleep 0.5
	assert_no_loss a 10.0.2.2 50
	assert_no_loss a 2001:db8:2::2 50
	wait $flooding
	sent=$(cat "$TMP/sent")
	[ "$sent" -gt 10000 ] || skip "this machine sends no flood: $sent packets in 3 s"
	case $flood in *10.0.1.1) limit=10000 ;; *) limit=1000 ;; esac
	took_ms=$((($(date +%s%N) - begin) / 1000000))
	assert_at_most $((($(punted) - before) * 1000 / took_ms)) $((limit * 3 / 2 + 300)) "packets a second handed to the kernel ($flood)"
done
assert_match "$(rutter show drops)" "punt|rate|limit" "what was over the rate among the drops"

# What comes while the router is held is more than its device's queue takes: counted, and told.
mac=$(mac_of r p0) sent=0
kill -STOP "$router_pid"
for ((i = 0; i < 10 && sent < 2 * QUEUE; i++)); do
	sent=$((sent + $(frames a flood eth0 "$mac" 10.0.1.2 10.0.2.2 --rate 20000 --seconds 1)))
done
kill -CONT "$router_pid"
lost() { rutter show ports -j | json 'next(p["rx_missed"] for p in x if p["name"] == "p0")'; }
told_of() { [ "$(lost)" -ge $1 ]; }
wait_for 10 told_of $((sent - QUEUE - 1000))
assert_match "$(rutter show drops)" "p0.rx_missed" "what devices lost among the drops"
