# traceroute and tracepath see the router, IPv4 and IPv6.
. "$(dirname "$0")/lib.sh"
need ping traceroute tracepath ethtool

two_hosts
two_ports | router_start
assert_ping a 10.0.2.2
assert_ping a 2001:db8:2::2

for family in 4 6; do
	if [ $family = 4 ]; then hop=10.0.1.1 end=10.0.2.2; else hop=2001:db8:1::1 end=2001:db8:2::2; fi
	for method in "" -I; do # UDP, ICMP
		assert_way "traceroute $method" "^ 1  $hop " "^ 2  $end " -- a traceroute -$family -n -q 1 -w 2 $method $end
	done
	assert_way tracepath "^ 1:  $hop " "$end .* reached" "pmtu 1500 hops 2" -- a tracepath -$family -n $end
done

# A packet whose TTL ends here is answered; one that goes on has a TTL less by one.
assert_no_ping a 10.0.2.2 -t 1
assert_ping a 10.0.2.2 -t 2
