#!/usr/bin/env bash
# After kill -9 and a new start: when do packets flow again, to a connected host and by routes that
# a routing daemon has learnt by BGP, and whose time is it?
#
#   scripts/back.sh [bird|frr] [ROUTES] ['LINE' …]
#
# LINEs go below FRR's `router bgp`, or into the `protocol bgp` of BIRD, at both ends.
#
# RUTTER is the binary (default: target/release/rutter). As root. The other end is BIRD. Prints
# seconds after the kill.
set -euo pipefail
cd "$(dirname "$0")/.."
who=${1:-frr} routes=${2:-120000}
shift $(($# < 2 ? $# : 2))
lines=("$@")
RUTTER=$(realpath "${RUTTER:-${CARGO_TARGET_DIR:-target}/release/rutter}")
export RUTTER
. scripts/smoke/lib.sh
. "$SMOKE/routing.sh"
need ping bird ethtool python3
[ "$who" = bird ] || [ -x /usr/lib/frr/zebra ] || skip "FRR is not installed"

two_hosts
on b ip address add 100.64.3.1/32 dev lo
awk -v n="$routes" 'BEGIN { for (i = 0; i < n; i++) { a = 8 * i
	printf "route 100.%d.%d.%d/29 blackhole;\n", 64 + int(a / 65536), int(a / 256) % 256, a % 256 } }' >"$TMP/lots4.conf"
speaker() { # ROUTER-ID OWN-AS PEER PEER-AS TO-AND-FROM-THE-KERNEL
	printf 'router id %s;\nprotocol device {}\nprotocol direct { ipv4; }\n%s\n' "$1" "$5"
	printf 'protocol bgp peer { local %s as %s; neighbor %s as %s;\n' "$1" "$2" "$3" "$4"
	[ "$who" != bird ] || printf '%s\n' "${lines[@]}"
	printf 'ipv4 { import all; export all; }; }\n'
}
speaker 10.0.2.2 65002 10.0.2.1 65001 "protocol static lots { ipv4;
include \"$TMP/lots4.conf\";
}" >"$TMP/peer.conf"
background peer ip netns exec "${P}b" bird -f -c "$TMP/peer.conf" -s "$TMP/b.ctl" -P "$TMP/peer.pid"
two_ports | router_start
case $who in
bird)
	speaker 10.0.2.1 65001 10.0.2.2 65002 'protocol kernel { ipv4 { export where source = RTS_BGP; import none; }; }' |
		sed 's/^ipv4 { import all; export all;/ipv4 { import all; export none;/' >"$TMP/router-bird.conf"
	background bird ip netns exec "${P}r" bird -f -c "$TMP/router-bird.conf" -s "$TMP/r.ctl" -P "$TMP/bird.pid"
	;;
frr)
	chmod 755 "$TMP"
	install -d -o frr -g frr "$TMP/frr"
	: >"$TMP/frr/zebra.conf"
	{
		printf 'log file %s\nlog timestamp precision 3\nrouter bgp 65001\n' "$TMP/frr/bgpd.log"
		printf ' no bgp ebgp-requires-policy\n bgp log-neighbor-changes\n neighbor 10.0.2.2 remote-as 65002\n'
		printf ' %s\n' "${lines[@]}"
	} >"$TMP/frr/bgpd.conf"
	chown frr: "$TMP"/frr/*.conf
	for daemon in zebra bgpd; do
		background $daemon ip netns exec "${P}r" /usr/lib/frr/$daemon -f "$TMP/frr/$daemon.conf" -z "$TMP/frr/zserv" \
			-i "$TMP/frr/$daemon.pid" --vty_socket "$TMP/frr"
		wait_for 20 test -S "$TMP/frr/zserv"
	done
	;;
esac
kernels() { on r ip route show table main | grep -c '^100\.' || true; }
rutters() { rutter show fib -j | json 'sum(f["routes"] for f in x if f["family"] == "ipv4")' || true; }
has_all() { [ "$(kernels)" -ge "$routes" ]; }
wait_for 120 has_all
wait_for 20 reaches a 100.64.3.1
sleep 5

now() { date +%s.%N; }
for host in 10.0.2.2 100.64.3.1; do background ping-$host ip netns exec "${P}a" ping -n -D -i 0.05 $host; done
sleep 1
killed=$(now)
router_kill
router_start
answers=$(now) kernel='' rutter='' quiet=0
while [ $quiet -lt 40 ]; do # a daemon may think better of it
	if ! has_all; then kernel=''; elif [ -z "$kernel" ]; then kernel=$(now); fi
	if ! [ "$(rutters)" -ge "$routes" ] 2>/dev/null; then rutter=''; elif [ -z "$rutter" ]; then rutter=$(now); fi
	if [ -n "$kernel" ] && [ -n "$rutter" ]; then quiet=$((quiet + 1)); else quiet=0; fi
	sleep 0.2
done
python3 - "$TMP" "$killed" "$answers" "$kernel" "$rutter" <<-'END'
	import re, sys
	tmp, killed, *times = sys.argv[1], *map(float, sys.argv[2:])
	def back(host):
	    lines = open(f"{tmp}/ping-{host}.log")
	    at = [float(m[1]) - killed for m in (re.match(r"\[([\d.]+)\] .*time=", line) for line in lines) if m]
	    return max((b for a, b in zip(at, at[1:]) if b > 0 and b - a > 0.3), default=0)
	answers, kernel, rutter = (time - killed for time in times)
	for what, time in [("the API answers", answers), ("a connected host is reached for good", back("10.0.2.2")),
	                   ("a host by a learnt route is reached for good", back("100.64.3.1")),
	                   ("the kernel has all learnt routes", kernel), ("Rutter has them", rutter)]:
	    print(f"{time:6.1f} s  {what}")
END
[ ! -e "$TMP/frr/bgpd.log" ] || sed -n 's/^[^ ]* \([^ ]*\) .*%ADJCHANGE: /  FRR, \1: /p' "$TMP/frr/bgpd.log"
echo "  killed: $(date -d "@$killed" +%T.%3N)"
