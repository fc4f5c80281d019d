# Equal-cost paths: flows are spread by weight, and each flow keeps its path.
. "$(dirname "$0")/lib.sh"
need ping ethtool python3

two_hosts
station c v2 10.0.3.2/24 10.0.3.1 2001:db8:3::2/64 2001:db8:3::1
for name in b c; do # both own the addresses behind the paths
	on $name ip route add local 10.9.0.0/16 dev lo
	on $name ip -6 route add local 2001:db8:9::/48 dev lo
done
{
	two_ports
	port p2 v2 10.0.3.1/24 2001:db8:3::1/64
	cat <<-'END'
		[[route]]
		prefix = "10.9.1.0/24"
		via = ["10.0.2.2", "10.0.3.2"]
		[[route]]
		prefix = "10.9.2.0/24"
		via = [{ to = "10.0.2.2", weight = 1 }, { to = "10.0.3.2", weight = 3 }]
		[[route]]
		prefix = "2001:db8:9::/48"
		via = ["2001:db8:2::2", "2001:db8:3::2"]
	END
} | router_start
for gateway in 10.0.2.2 10.0.3.2 2001:db8:2::2 2001:db8:3::2; do
	assert_ping a $gateway
	wait_for 5 known $gateway # a path that is not resolved has no share
done

received() { on "$1" cat /sys/class/net/eth0/statistics/rx_packets; }

# True when no packet is in flight: all have come; or some are lost on a busy machine, where packets
# and counters come late, but not by a second.
settled() { # PACKETS THAT B AND C HAVE WHEN ALL HAVE COME
	local now=$(($(received b) + $(received c)))
	[ $now -lt "$1" ] || return 0
	sleep 1
	[ $(($(received b) + $(received c) - now)) -lt 20 ]
}

# Sends 512 flows to DST, and reports how many packets b and c got, and their share in percent.
spread() { # SRC DST
	local b c sent
	b=$(received b) c=$(received c)
	sent=$(frames a flood eth0 "$(mac_of r p0)" "$1" "$2" --ports 512 --rate 4000 --seconds 1)
	wait_for 10 settled $((b + c + sent))
	b=$(($(received b) - b)) c=$(($(received c) - c))
	[ $((b + c)) -gt 500 ] || fail "of 512 flows only $((b + c)) packets arrived"
	echo $((100 * b / (b + c)))
}

between() { # FOUND LOW HIGH WHAT
	[ "$1" -ge "$2" ] && [ "$1" -le "$3" ] && return
	rutter show neighbours >&2
	rutter show runtime >&2
	fail "$4: $1 %, expected $2 to $3 %"
}

between "$(spread 10.0.1.2 10.9.1.9)" 40 60 "the share of one of two equal paths"
between "$(spread 10.0.1.2 10.9.2.9)" 17 33 "the share of weight 1 of 4"
between "$(spread 2001:db8:1::2 2001:db8:9::9)" 40 60 "the share of one of two equal paths, IPv6"

# One flow takes one path.
b=$(received b) c=$(received c)
sent=$(frames a flood eth0 "$(mac_of r p0)" 10.0.1.2 10.9.1.9 --ports 1 --rate 2000 --seconds 1)
wait_for 10 settled $((b + c + sent))
b=$(($(received b) - b)) c=$(($(received c) - c))
assert_at_most "$((b < c ? b : c))" 20 "packets of one flow on the other path"

# A gateway that failed is resolved again, although the kernel sends the packets for it by the other path.
resolved() { on r ip neighbour show 10.0.2.2 dev p1 | found REACHABLE && known 10.0.2.2; }
on r ip neighbour replace 10.0.2.2 dev p1 nud failed
wait_for 8 resolved
sleep 0.5 # that it had failed may have been in the kernel's queue still
wait_for 5 resolved
between "$(spread 10.0.1.2 10.9.1.9)" 40 60 "the share of one of two equal paths, one asked for again"

# When a path goes, its flows move to the other.
on b ip link set eth0 down
wait_for 10 assert_no_loss a 10.9.1.9 50

# Next-hop objects, as FRR uses them.
host_up b 10.0.2.1 2001:db8:2::1
wait_for 10 on r ip nexthop add id 11 via 10.0.2.2 dev p1 # as soon as the tap has a carrier
on r ip nexthop add id 12 via 10.0.3.2 dev p2
on r ip nexthop add id 10 group 11/12
on r ip route add 10.9.3.0/24 nhid 10
wait_for 5 reaches a 10.9.3.9
# By either path: the one that was down is resolved again, which takes a moment.
wait_for 10 known 10.0.2.2
between "$(spread 10.0.1.2 10.9.3.9)" 40 60 "the share of one of two equal paths, next-hop group"
# Deleting the object removes the route, for which the kernel sends no message.
on r ip nexthop del id 10
wait_for 10 sh -c '! "$RUTTER" show routes | grep -q 10.9.3.0/24'
