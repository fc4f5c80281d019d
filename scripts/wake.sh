#!/usr/bin/env bash
# How much later a lone packet is forwarded by a worker that sleeps than by one that polls,
# and what four idle ports cost.
#
#   scripts/wake.sh [PACKETS]
#
# RUTTER is the binary (default: target/release/rutter). As root. Ends with status 1 where
# the median of the packets (1,000) is more than 100 µs later, or idle takes more than 1 %
# of a core.
set -euo pipefail
cd "$(dirname "$0")/.."
packets=${1:-1000}
RUTTER=$(realpath "${RUTTER:-${CARGO_TARGET_DIR:-target}/release/rutter}")
export RUTTER
renice -n -19 $$ >/dev/null || true # before whoever else works on this machine
. scripts/smoke/lib.sh
need ethtool python3 taskset
[ "$(nproc)" -gt 1 ] || skip "one core"

two_hosts
link r v2 r x2
link r v3 r x3
config() { # idle = …
	printf 'idle = "%s"\nworkers = [1]\n' "$1"
	two_ports
	printf '[ports.p2]\ndevice = "%s"\n[ports.p3]\ndevice = "%s"\n' "$(device 2 v2)" "$(device 3 v3)"
}
# One echo after the other, each after a pause in which a worker falls asleep: the median
# round trip in µs. The answer finds the worker awake. Who asks has the other core.
median() {
	on a taskset -c 0 python3 - "$packets" <<-'END'
		import os, socket, statistics, struct, sys, time
		raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
		raw.connect(("10.0.2.2", 0))
		raw.settimeout(1)
		raw.setblocking(False)
		took = []
		for sequence in range(int(sys.argv[1])):
		    time.sleep(0.004)
		    head = struct.pack("!BBHHH", 8, 0, 0, 7, sequence)
		    total = sum(struct.unpack("!4H", head))
		    total = (total & 0xFFFF) + (total >> 16)
		    ask = head[:2] + struct.pack("!H", ~total & 0xFFFF) + head[4:]
		    begin = time.perf_counter_ns()
		    raw.send(ask)
		    while time.perf_counter_ns() - begin < 100_000_000:
		        try:
		            answer = raw.recv(2048)[20:]
		        except BlockingIOError:
		            continue
		        if answer[0] == 0 and answer[6:8] == ask[6:8]:
		            break
		    took.append(time.perf_counter_ns() - begin)
		print(int(statistics.median(took) / 1000))
	END
}
spent() { cat /proc/"$router_pid"/task/*/schedstat | awk '{ n += $1 } END { print int(n / 1000) }'; } # µs

declare -A later
for turn in 1 2 3; do
	for idle in poll adaptive; do
		config $idle | router_start
		assert_ping a 10.0.2.2
		later[$idle$turn]=$(median)
		echo "turn $turn, idle = $idle: median round trip ${later[$idle$turn]} µs"
		if [ $idle = adaptive ]; then
			sleep 2
			before=$(spent)
			sleep 10
			share=$(($(spent) - before)) # of 10 s, in µs: hundredths of % are its thousandths
			echo "turn $turn, four idle ports: $((share / 1000)).$((share % 1000 / 100)) ms of processor time in 10 s"
			[ $share -le 100000 ] || fail "idle takes more than 1 % of a core"
		fi
		router_stop
	done
done
middle() { printf '%s\n' "$@" | sort -n | sed -n 2p; }
poll=$(middle "${later[poll1]}" "${later[poll2]}" "${later[poll3]}")
adaptive=$(middle "${later[adaptive1]}" "${later[adaptive2]}" "${later[adaptive3]}")
echo "a lone packet: $((adaptive - poll)) µs later than by polling (medians of $packets, the middle of three turns)"
[ $((adaptive - poll)) -le 100 ] || fail "more than 100 µs"
