# Loops of a switch: a cable between two of its ports, another switch that sends every frame back;
# and a host that claims another host's address.
. "$(dirname "$0")/lib.sh"
need ping ethtool python3

# a and b are hosts; v2 and v3 the ends of one cable; s is a switch with a loop of its own
host r a b s
link a eth0 r v0
link b eth0 r v1
link s eth0 r v4
on r ip link add v2 type veth peer name v3
for end in v2 v3; do end_of_link r "$end" "$end" 1500; done
on a ip address add 10.0.0.1/24 dev eth0
on b ip address add 10.0.0.2/24 dev eth0

router_start <<-END
	$(bare_ports 5)
	[bridge.lan]
	ports = ["p0", "p1", "p2", "p3", "p4"]
	addresses = ["10.0.0.254/24"]
END
assert_ping a 10.0.0.2

plug() { on r ip link set v2 up && on r ip link set v3 up; }
unplug() { on r ip link set v2 down && on r ip link set v3 down; }
out() { rutter show bridges -j | json '" ".join(sorted(l["port"] for b in x for l in b["loops"] if l["out"]))'; }
is_out() { assert_eq "$(out)" "$1" "ports that are out"; }
count_at_b() { # SECONDS MAC: counts how often b gets frames from MAC to all
	rm -f "$TMP/at_b.log"
	background at_b ip netns exec "${P}b" python3 "$SMOKE/frames.py" count eth0 "$1" "ffffffffffff${2//:/}88b5"
	counter=$last_pid
	is_ready at_b
}
counted() { # when it has counted; sets $copies
	wait "$counter"
	copies=$(tail -n 1 "$TMP/at_b.log")
}

# ----- no loop: no port is off (the router itself has set the ends of the cable up)
unplug
wait_for 5 is_out ""
sleep 2
is_out ""
assert_match "$(rutter doctor || true)" "loops +none" "doctor"

# ----- a cable whose loop has been found: a broadcast reaches b once
plug
wait_for 3 is_out p3 # a probe a second, and the link is seen before
count_at_b 3 02:00:00:00:00:aa
frames a station eth0 02:00:00:00:00:aa
counted
assert_eq "$copies" 1 "copies of a broadcast with the loop cabled before"
assert_match "$(rutter show bridges)" "loop: p3 has been out of use for .* receives the probes of p2" "show bridges"
assert_match "$(rutter show ports)" "p3 +out: loop with p2" "show ports"
assert_match "$(rutter show bridges)" "[1-9] loops" "the counter"
assert_match "$(rutter doctor || true)" "loops +port p3 receives the probes of p2" "doctor"
grep -q "a loop: port p3 receives the probes that p2 sends" "$TMP/rutter.log" || fail "the log says nothing"
assert_no_loss a 10.0.0.2 50

# ----- a cable is plugged in under a broadcast: at most 100 copies of each, none after a second
unplug
wait_for 5 is_out ""
count_at_b 6 02:00:00:00:00:bb
plug
frames a station eth0 02:00:00:00:00:bb
sleep 1
at=$(on b cat /sys/class/net/eth0/statistics/rx_packets)
counted
[ "$copies" -ge 1 ] || fail "the broadcast is lost"
assert_at_most "$copies" 100 "copies of a broadcast that is on its way while the loop is cabled"
assert_at_most $(($(on b cat /sys/class/net/eth0/statistics/rx_packets) - at)) 50 "frames in the five seconds behind the first"
is_out p3
assert_no_loss a 10.0.0.2 50

# ----- a switch behind one port sends everything back: that port is switched off, and comes back
unplug
wait_for 5 is_out ""
background reflect ip netns exec "${P}s" python3 "$SMOKE/frames.py" reflect eth0
is_ready reflect
wait_for 5 is_out p4
assert_no_loss a 10.0.0.2 50
kill "$last_pid"
wait_gone "$last_pid" 50 || fail "frames.py does not end"
wait_for 40 is_out ""
grep -q "port p4: no probe has come back" "$TMP/rutter.log" || fail "the log does not say that p4 is back"

# ----- three broadcasts in a host's name do not take its address away: six moves within ten seconds, at
# another host where a busy machine took longer
is_at() { assert_match "$(rutter show macs --mac "$victim")" " $1( |\$)" "the port of a"; }
for last in 0a 0b 0c 0d; do
	victim=02:00:00:00:0c:$last
	frames a station eth0 "$victim"
	wait_for 5 is_at p0
	begin=$(now_ms)
	for _ in 1 2 3; do
		frames s station eth0 "$victim"
		wait_for 5 is_at p4
		frames a station eth0 "$victim"
		wait_for 5 is_at p0
	done
	[ $(($(now_ms) - begin)) -gt 9500 ] || break
done
frames s station eth0 "$victim"
sleep 0.3
is_at p0
assert_match "$(rutter show bridges)" "$victim" "the held station"

router_stop
! grep -q unaccounted "$TMP/rutter.log" || fail "packets are unaccounted for"
