# Port mirroring: from the configuration and at run time; to a port, into a file; a filter, one
# frame in N; counters; and no nodes in the graph while there is no mirror.
. "$(dirname "$0")/lib.sh"
need ping ethtool python3

two_hosts
host m
link m eth0 r v2

{
	two_ports
	cat <<-END
		[ports.p2]
		device = "$(device 2 v2)"
		[span.watch]
		ports = ["p0"]
		direction = "in"
		port = "p2"
		filter = "icmp"
	END
} | router_start

copied() { # NAME: frames
	rutter span show -j | json "[one['copied'] for one in x if one['span']['name'] == '$1'][0]"
}
seen() { on m cat /sys/class/net/eth0/statistics/rx_packets; }
recorded() { # FILE: frames of ICMP in it
	python3 - "$1" <<-'END'
		import struct, sys
		data, at, icmp = open(sys.argv[1], "rb").read(), 24, 0
		while at < len(data):
		    length = struct.unpack_from("<I", data, at + 8)[0]
		    frame = data[at + 16:at + 16 + length]
		    icmp += frame[12:14] == b"\x08\x00" and frame[23] == 1
		    at += 16 + length
		print(icmp)
	END
}
is() { assert_eq "$("${@:3}")" "$1" "$2"; }
drawn() { rutter show graph | grep -c span_ || true; }

# ----- to a port, as configured: received frames that the filter matches
assert_ping a 10.0.2.2
assert_no_loss a 10.0.2.2 5 # and behind them none of the pings is on its way
before=$(copied watch) at=$(seen)
assert_no_loss a 10.0.2.2 50
wait_for 5 is $((before + 50)) "echo requests copied" copied watch
seen_more() { [ $(($(seen) - at)) -ge "$1" ]; }
wait_for 5 seen_more 50
assert_match "$(rutter span show)" "watch +p0 +in +p2 +icmp" "span show"
assert_match "$(rutter show graph)" "span_in" "the graph"

# ----- into a file, at run time: both directions
rutter span add record -p p1 --file "$TMP/record.pcap" icmp
! rutter span add record -p p1 --to p2 2>"$TMP/error" || fail "a name twice"
assert_match "$(cat "$TMP/error")" "there is a span .record. already" "a name twice"
! rutter span add loop -p p0 --to p0 2>"$TMP/error" || fail "a port to itself"
assert_match "$(cat "$TMP/error")" "copies of its own frames" "a port to itself"
! rutter span add bad -p p0 --to p2 tcp port 2>"$TMP/error" || fail "half a filter"
assert_match "$(cat "$TMP/error")" "expected a port" "half a filter"
# A path that is no plain file is refused at once, and so is the same file under another name.
mkfifo "$TMP/pipe"
! rutter span add pipe -p p0 --file "$TMP/pipe" 2>"$TMP/error" || fail "into a pipe"
assert_match "$(cat "$TMP/error")" "expected a plain file" "into a pipe"
ln "$TMP/record.pcap" "$TMP/same.pcap"
! rutter span add same -p p0 --file "$TMP/same.pcap" 2>"$TMP/error" || fail "one file twice"
assert_match "$(cat "$TMP/error")" "another span writes this file" "one file twice"
assert_no_loss a 10.0.2.2 40
wait_for 5 is 80 "requests and answers copied" copied record
rutter span del record
assert_eq "$(recorded "$TMP/record.pcap")" 80 "frames in the file"

# ----- one in ten
rutter span add some -p p0 -d in --to p2 --one-in 10 icmp
assert_no_loss a 10.0.2.2 100
wait_for 5 is 10 "one in ten" copied some
rutter span del some

# ----- none: nothing is copied, and the nodes are gone
rutter span del watch
! rutter span del watch 2>/dev/null || fail "what is not there was deleted"
assert_eq "$(rutter span show -j)" "[]" "no span"
at=$(seen)
assert_no_loss a 10.0.2.2 50
[ $(($(seen) - at)) -lt 20 ] || fail "frames are copied without a span"
assert_match "$(rutter show graph --all)" "^└─ ethernet_input" "the first node"

# ----- every packet is accounted for
router_stop
! grep -q unaccounted "$TMP/rutter.log" || fail "packets are unaccounted for"
