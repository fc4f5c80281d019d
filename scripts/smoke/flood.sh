# A flood of packets that end here costs the routed traffic almost nothing.
. "$(dirname "$0")/lib.sh"
need ping ethtool python3

two_hosts
two_ports | router_start
assert_ping a 10.0.2.2
assert_ping a 2001:db8:2::2

punted() { rutter show system -j | json 'x["accounting"]["punted"]'; }

for flood in "10.0.1.2 10.0.2.2 --ttl 1" "2001:db8:1::2 2001:db8:2::2 --ttl 1" "10.0.1.2 10.0.2.99" "10.0.1.2 10.0.1.1"; do
	before=$(punted)
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
	assert_at_most $((($(punted) - before) / 3)) $((limit * 3 / 2 + 300)) "packets a second handed to the kernel ($flood)"
done
assert_match "$(rutter show drops)" "punt|rate|limit" "what was over the rate among the drops"

# What comes while the router is held is more than its device's queue takes: counted, and told.
kill -STOP "$router_pid"
frames a flood eth0 "$(mac_of r p0)" 10.0.1.2 10.0.2.2 --rate 20000 --seconds 1 >/dev/null
kill -CONT "$router_pid"
lost() { rutter show ports -j | json 'next(p["rx_missed"] for p in x if p["name"] == "p0")'; }
assert_eq "$(($(lost) > 1000))" 1 "frames that the device of p0 had no room for: $(lost)"
assert_match "$(rutter show drops)" "p0.rx_missed" "what devices lost among the drops"
