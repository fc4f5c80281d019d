# The switch: access ports, a trunk, learning, ageing, moves, a loop, a flood of
# addresses, the routed interfaces of VLANs.
. "$(dirname "$0")/lib.sh"
need ping ethtool python3

# VLAN 10: a and b on access ports, c on the trunk; VLAN 20: d, and c again; VLAN 30: a tunnel for
# e's frames, which have two tags of their own, and c.
host r a b c d e
link a eth0 r v0
link b eth0 r v1
link c eth0 r v2 1512 # room for three tags
link d eth0 r v3
link e eth0 r v4 1508 # room for both tags
tagged c eth0 t10 10
tagged c eth0 t20 20
tagged c eth0 t30 c30 s77 78
tagged e eth0 t77 77 78
on a ip address add 10.10.0.1/24 dev eth0
on b ip address add 10.10.0.2/24 dev eth0
on c ip address add 10.10.0.3/24 dev t10
on c ip address add 10.20.0.3/24 dev t20
on d ip address add 10.20.0.4/24 dev eth0
on c ip address add 10.30.0.3/24 dev t30
on e ip address add 10.30.0.5/24 dev t77
on a ip route add default via 10.10.0.254
on d ip route add default via 10.20.0.254

router_start <<-END
	$(bare_ports 5)
	[bridge.lan]
	ports = ["p0", "p1", "p2", "p3", "p4"]
	ageing = 8
	max_macs = 20_000
	[bridge.lan.port.p0]
	access = 10
	[bridge.lan.port.p1]
	access = 10
	[bridge.lan.port.p2]
	trunk = [10, 20, 30]
	[bridge.lan.port.p3]
	access = 20
	[bridge.lan.port.p4]
	access = 30
	tunnel = true
	[bridge.lan.vlan.10]
	addresses = ["10.10.0.254/24"]
	[bridge.lan.vlan.20]
	addresses = ["10.20.0.254/24"]
END

# ----- hosts talk, within their VLAN
assert_ping a 10.10.0.2
assert_ping a 10.10.0.3
assert_ping d 10.20.0.3
assert_no_loss a 10.10.0.2 100
assert_ping a 10.10.0.2 -M do -s 1472
assert_eq "$(kernel_forwarded r)" 0 "packets between ports that the kernel forwarded"

at() { # NS IF: the port where the bridge saw it
	rutter show macs -j --mac "$(mac_of "$1" "$2")" | json 'x[0]["port"] if x else "nowhere"'
}
is_at() { assert_eq "$(at "$1" "$2")" "$3" "where the bridge saw $2 of $1"; }
in_macs() { assert_match "$(rutter show macs)" "$1" "$2"; }
seen() { # NS ADDR IF PORT: by what it sends now; the table forgets what is silent, and learns beside the packets
	reaches "$1" "$2" -c 1 && is_at "$1" "$3" "$4"
}
wait_for 5 seen a 10.10.0.3 eth0 p0
wait_for 5 seen c 10.10.0.1 t10 p2
assert_ping d 10.20.0.3
wait_for 5 in_macs "$(mac_of d eth0) +lan +20 +p3" "d in the table"
# A limit counts only stations that match the other options: here d, and the routed side.
first=$(rutter show macs --bridge lan --vlan 20 --limit 1 -j 2>"$TMP/cut.err" | json '[mac["vlan"] for mac in x]')
assert_eq "$first" "[20]" "the first station of VLAN 20"
assert_match "$(cat "$TMP/cut.err")" "1 of [2-9] stations are shown" "what is cut says so"
assert_match "$(rutter show macs --vlan 20 --limit 1)" "^1 of [2-9] " "what is cut says so in its last line"

# ----- frames to unknown stations are flooded, and to known ones no longer
flooded() { rutter show bridges -j | json 'sum(d["flooded"] for b in x for d in b["domains"])'; }
wait_for 5 seen a 10.10.0.2 eth0 p0
wait_for 5 seen b 10.10.0.1 eth0 p1
before=$(flooded)
assert_no_loss a 10.10.0.2 50
assert_at_most $(($(flooded) - before)) 20 "frames flooded, of 100 between known stations and some to all"

# ----- a tunnel carries two tags there and back: the trunk's tag is a third
assert_ping e 10.30.0.3
assert_ping c 10.30.0.5
assert_no_loss e 10.30.0.3 50
wait_for 5 in_macs "$(mac_of c t30) +lan +30 +p2" "c in the table"
assert_ping e 10.30.0.3 -M do -s 1468 # of the trunk's 1500 bytes the third tag takes 4, headers 28
assert_no_ping e 10.30.0.3 -M do -s 1469
too_long() { assert_match "$(rutter show drops)" 'bridge_forward.too_long +3 ' "frames too long for the trunk"; }
wait_for 5 too_long
wait_for 5 in_macs "$(mac_of e t77) +lan +30 +p4" "e in the table"

# ----- the VLANs' routed interfaces
assert_ping a 10.10.0.254
assert_ping d 10.20.0.254
assert_ping a 10.20.0.4 # routed between the VLANs
assert_ping d 10.10.0.1

# ----- a host that moves is followed
mac=$(mac_of a eth0)
on a ip link set eth0 down
on b ip link set eth0 address "$mac"
on b ip address add 10.10.0.1/24 dev eth0
wait_for 5 seen b 10.10.0.3 eth0 p1
assert_ping c 10.10.0.1
on b ip address del 10.10.0.1/24 dev eth0
on b ip link set eth0 address 02:00:00:00:0b:0b
on a ip link set eth0 up
on a ip route replace default via 10.10.0.254
assert_ping a 10.10.0.3

# ----- silent stations are forgotten
silent() { [ "$(rutter show macs -j --mac 02:00:00:00:0b:0b | json 'len(x)')" = 0 ]; }
wait_for 5 seen b 10.10.0.3 eth0 p1
on b sysctl -qw net.ipv6.conf.eth0.disable_ipv6=1
on b ip link set eth0 arp off
wait_for 20 silent
on b ip link set eth0 arp on

# ----- static stations, and flushing
rutter mac add 02:00:00:00:00:77 --port p3 --vlan 20
wait_for 5 in_macs '02:00:00:00:00:77 +lan +20 +p3 +static' "a static station"
assert_status 0 rutter mac del 02:00:00:00:00:77 --vlan 20
assert_status 1 rutter mac del 02:00:00:00:00:77 --vlan 20
assert_status 2 rutter mac add 02:00:00:00:00:77 --port p9 --vlan 20
assert_ping a 10.10.0.3
rutter mac flush --port p0
assert_ping a 10.10.0.3

# ----- a flood of addresses neither stops known stations nor fills memory
background flood ip netns exec "${P}b" python3 "$SMOKE/frames.py" stations eth0 --seconds 8
many() { [ "$(rutter show bridges -j | json 'x[0]["macs"]')" -gt 1000 ]; }
wait_for 20 many
assert_ping a 10.10.0.3
wait_gone "$last_pid" 200 || fail "the flood does not end"
assert_at_most "$(rutter show bridges -j | json 'x[0]["macs"]')" 20000 "stations learnt"
assert_match "$(rutter show capacity)" 'bridge lan' "the limit in show capacity"
assert_ping a 10.10.0.3

# ----- a loop: an address that alternates between two ports is held and named
rutter mac flush
for name in a b; do
	background "loop-$name" ip netns exec "$P$name" python3 "$SMOKE/frames.py" stations eth0 --mac 02:00:00:00:1f:1f --seconds 60 --pause 0.05
done
wait_for 30 grep -q '02:00:00:00:1f:1f keeps moving' "$TMP/rutter.log"
assert_match "$(rutter show bridges)" '02:00:00:00:1f:1f' "the held station"

# ----- a routed interface has a carrier while a port of its VLAN has a link
carrier() { on r ip link show dev "$1" | grep -c LOWER_UP; }
without() { [ "$(carrier "$1")" = 0 ]; }
with() { [ "$(carrier "$1")" = 1 ]; }
on d ip link set eth0 down
on c ip link set eth0 down
wait_for 5 without lan.20
assert_eq "$(carrier lan.10)" 1 "the carrier of lan.10, with two of three ports"
on d ip link set eth0 up
wait_for 5 with lan.20

router_stop
