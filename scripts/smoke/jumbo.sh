# The switch: frames keep their priorities in tags (802.1p) and their length, up to 9000 bytes.
. "$(dirname "$0")/lib.sh"
need ping ethtool python3

# a, b and e on access ports of VLAN 10, c and d on trunks; e's port is for 1500 bytes.
host r a b c d e
link a eth0 r v0 9000
link b eth0 r v1 9000
link c eth0 r v2 9004 # room for the tag
link d eth0 r v3 9004
link e eth0 r v4 9000
TAGGED_MTU=9000 tagged c eth0 t10 10
TAGGED_MTU=9000 tagged d eth0 t10 10
on a ip address add 10.10.0.1/24 dev eth0
on b ip address add 10.10.0.2/24 dev eth0
on c ip address add 10.10.0.3/24 dev t10
on d ip address add 10.10.0.4/24 dev t10
on e ip address add 10.10.0.5/24 dev eth0

router_start <<-END
	[ports.p0]
	device = "$(device 0 v0)"
	mtu = 9000
	[ports.p1]
	device = "$(device 1 v1)"
	mtu = 9000
	[ports.p2]
	device = "$(device 2 v2)"
	mtu = 9004
	[ports.p3]
	device = "$(device 3 v3)"
	mtu = 9004
	[ports.p4]
	device = "$(device 4 v4)"
	[bridge.lan]
	ports = ["p0", "p1", "p2", "p3", "p4"]
	[bridge.lan.port.p0]
	access = 10
	[bridge.lan.port.p1]
	access = 10
	[bridge.lan.port.p2]
	trunk = [10]
	[bridge.lan.port.p3]
	trunk = [10]
	[bridge.lan.port.p4]
	access = 10
END

# ----- long frames, whole
for to in 10.10.0.2 10.10.0.3 10.10.0.4; do assert_ping a $to -M do -s 8972; done
assert_ping c 10.10.0.4 -M do -s 8972
assert_no_loss a 10.10.0.2 20

# ----- too long for one port: counted, to a known station and among copies; the others get theirs
too_long() { rutter show drops -j | json "sum(d['packets'] for d in x if d['reason'] == '$1.too_long')"; }
in_macs() { assert_match "$(rutter show macs)" "$1" "$2"; }
assert_ping a 10.10.0.5 -M do -s 1472
wait_for 5 in_macs "$(mac_of e eth0) +lan +10 +p4" "e in the table" # it learns beside the packets
assert_status 1 on a ping -n -q -c 3 -i 0.2 -W 1 -M do -s 1473 10.10.0.5
three() { assert_eq "$(too_long bridge_forward)" 3 "frames too long for the port of a known station"; }
wait_for 5 three
before=$(too_long bridge_flood)
copied() { # what b says by itself, such as a question for a, puts it into the table again
	rutter mac flush && reaches a 10.10.0.2 -c 1 -M do -s 8972 && [ "$(too_long bridge_flood)" -gt "$before" ]
}
wait_for 10 copied # copies too long for one of the ports are counted

# ----- priorities
station=02:00:00:00:99:01 # speaks to whoever listens
sees() { # NS FRAME-PART: among what comes while the rest of the words send a frame
	local name=$1 part=$2
	shift 2
	rm -f "$TMP/watch.log"
	background watch ip netns exec "$P$name" python3 "$SMOKE/frames.py" count eth0 8 "$part" --first
	is_ready watch
	frames "$1" station eth0 "$station" "${@:2}"
	wait_gone "$last_pid" 200
	tail -n 1 "$TMP/watch.log"
}
from=${station//:/}
assert_eq "$(sees c "${from}8100a00a88b5" a --tci 0xa000)" 1 "a priority tag, on the trunk: VLAN 10, priority 5"
assert_eq "$(sees c "${from}8100000a88b5" a)" 1 "no tag, on the trunk: VLAN 10, priority 0"
assert_eq "$(sees d "${from}8100e00a88b5" c --tci 0xe00a)" 1 "from trunk to trunk: priority 7"
assert_eq "$(sees d "${from}8100700a88b5" c --tci 0x700a)" 1 "from trunk to trunk: priority 3, may be dropped"
assert_eq "$(sees b "${from}88b5" c --tci 0xe00a)" 1 "from the trunk to an access port: no tag"
assert_eq "$(sees b "${from}8100" c --tci 0xe014)" 0 "VLAN 20"

router_stop
