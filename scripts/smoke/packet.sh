# `packet:IFACE` on hosts with all their default offloads: fragments, service tags, long frames,
# several queues, checksums and segments left to an absent card; idle workers sleep; changed
# settings of interfaces are restored.
. "$(dirname "$0")/lib.sh"
need ping ethtool python3
[ "${RUTTER_SMOKE_DEVICE:-packet}" = packet ] || skip "it is about packet:IFACE"

# As `station`, but all offloads stay on.
plain() { # NAME IF ADDR4/LEN GATEWAY4 ADDR6/LEN GATEWAY6
	host "$1"
	ip link add "$P-l" netns "$P$1" type veth peer name "$P-r" netns "${P}r"
	on "$1" ip link set "$P-l" name eth0 up
	on r ip link set "$P-r" name "$2" up
	on "$1" ip address add "$3" dev eth0
	on "$1" ip route add default via "$4"
	on "$1" ip address add "$5" dev eth0 nodad
	on "$1" ip -6 route add default via "$6"
}
host r
plain a v0 10.0.1.2/24 10.0.1.1 2001:db8:1::2/64 2001:db8:1::1
plain b v1 10.0.2.2/24 10.0.2.1 2001:db8:2::2/64 2001:db8:2::1
link r v2 r x2
link r v3 r x3
host c d
on r ip link set x2 netns "$(ns c)" name eth0
on r ip link set x3 netns "$(ns d)" name eth0
on c ip link set eth0 up
on d ip link set eth0 up
for iface in v0 v1; do on r ethtool -K $iface gro on >/dev/null 2>&1 || true; done
settings() { # of the interfaces below the ports
	local iface
	for iface in v0 v1; do
		on r cat /sys/class/net/$iface/mtu
		on r ethtool -k $iface | grep -E 'generic-receive|large-receive|rx-gro|rx-udp'
		on r ip -d link show $iface | grep -o 'promiscuity [0-9]*'
	done
}
settings >"$TMP/before"

workers='workers = [0]'
[ "$(nproc)" = 1 ] || workers='workers = [0, 1]'
config() { # MTU
	echo "$workers"
	two_ports "mtu = $1"
	printf '[ports.p2]\ndevice = "packet:v2"\n[ports.p3]\ndevice = "packet:v3"\n'
	printf '[bridge.lan]\nports = ["p2", "p3"]\n'
}
config 1500 | router_start
assert_ping a 10.0.2.2
assert_ping a 2001:db8:2::2
[ "$(nproc)" = 1 ] || assert_eq "$(rutter show ports -j | json 'x[0]["queues"]')" 2 "queues of p0"

# ----- fragments pass as they are, whatever queue they come in by
received() { rutter show ports -j | json 'next(p["rx_packets"] for p in x if p["name"] == "p0")'; }
for size in 1473 4000 8000; do assert_ping a 10.0.2.2 -M dont -s $size; done
assert_ping a 2001:db8:2::2 -s 4000
before=$(received)
on a ping -n -q -c 5 -i 0.2 -s 7000 -M dont 10.0.2.2 >/dev/null || fail "pings in fragments"
[ $(($(received) - before)) -ge 25 ] || fail "five packets of five fragments were $(($(received) - before)) frames"

# ----- every worker has its queue
if [ "$(nproc)" != 1 ]; then
	frames a flood eth0 "$(mac_of r p0)" 10.0.1.2 10.0.2.2 --ports 64 --rate 5000 --seconds 2 >/dev/null
	busy() {
		assert_eq "$(rutter show runtime -j |
			json 'sum(any(n["packets"] > 100 and "ip4" in n["name"] for n in w["nodes"]) for w in x["workers"])')" 2 "workers that forwarded"
	}
	wait_for 5 busy
fi

# ----- TCP and UDP of hosts that leave checksums and segments to their cards
wrong() { # NS: checksums that were wrong there, of all protocols
	on "$1" awk '/^(Tcp|Udp|Icmp|IcmpMsg):/ {
		if (!head[$1]++) for (i = 1; i <= NF; i++) name[$1, i] = $i
		else for (i = 1; i <= NF; i++) if (name[$1, i] == "InCsumErrors") n += $i
	} END { print n + 0 }' /proc/net/snmp
}
transfer() { # FROM TO ADDRESS PORT MIB FLOWS: every byte arrives; prints Mbit/s
	background "sink-$2-$4" ip netns exec "$P$2" python3 -c '
import hashlib, socket, sys, threading
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
s = socket.create_server((sys.argv[1], int(sys.argv[2])), family=family); print("ready", flush=True)
def one(c):
	hash = hashlib.blake2b()
	while data := c.recv(1 << 18): hash.update(data)
	c.sendall(hash.digest()); c.close()
for _ in range(int(sys.argv[3])): threading.Thread(target=one, args=(s.accept()[0],)).start()' "$3" "$4" "$6"
	is_ready "sink-$2-$4"
	on "$1" timeout 100 python3 -c '
import hashlib, os, socket, sys, threading, time
part, flows, wrong = os.urandom(1 << 20), int(sys.argv[4]), []
def one():
	hash = hashlib.blake2b()
	s = socket.create_connection((sys.argv[1], int(sys.argv[2])))
	for _ in range(int(sys.argv[3]) // flows): s.sendall(part); hash.update(part)
	s.shutdown(socket.SHUT_WR)
	if s.recv(100) != hash.digest(): wrong.append(1)
begin = time.monotonic()
threads = [threading.Thread(target=one) for _ in range(flows)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(int(int(sys.argv[3]) * 8.4 / (time.monotonic() - begin)))
sys.exit(bool(wrong))' "$3" "$4" "$5" "$6" || fail "what $1 sent is not what $2 received"
}
came() { on b cat /sys/class/net/eth0/statistics/rx_packets; } # frames for many count once
before=$(came)
transfer a b 10.0.2.2 5000 32 1 >/dev/null
[ $(($(came) - before)) -lt $((32 << 20 >> 12)) ] || fail "segments of a stream came one by one: $(($(came) - before))"
echo "TCP, Mbit/s: $(transfer a b 10.0.2.2 5001 64 4) $(transfer b a 10.0.1.2 5002 64 1)" \
	"IPv6 $(transfer a b 2001:db8:2::2 5003 64 2) $(transfer b a 2001:db8:1::2 5004 64 1)"
datagrams() { # of one call cut into many (UDP_SEGMENT), and one by one
	background datagrams ip netns exec "${P}b" python3 -c '
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("10.0.2.2", 5005)); s.settimeout(5)
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
print("ready", flush=True)
print(sorted(len(s.recv(65536)) for _ in range(43 + 3)))'
	is_ready datagrams
	on a python3 -c '
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(("10.0.2.2", 5005))
for size in 1, 999, 1472: s.send(bytes(size))
s.setsockopt(17, 103, 1400)
s.send(bytes(60000))'
	wait_gone "$last_pid" 100
	grep -q "\[1, 999, 1200, $(python3 -c 'print(*[1400] * 42, 1472, sep=", ")')\]" "$TMP/datagrams.log"
}
datagrams || { cat "$TMP/datagrams.log"; fail "datagrams are missing"; }
for name in a b; do assert_eq "$(wrong $name)" 0 "wrong checksums at $name"; done
assert_eq "$(rutter show ports -j | json 'sum(p["rx_errors"] + p["tx_errors"] for p in x)')" 0 "errors of ports"

# ----- a service tag stays a service tag
station=02:00:00:00:99:01
sees() { # NS FRAME-PART SENDER ARGUMENTS: how often it comes
	rm -f "$TMP/watch.log"
	background watch ip netns exec "$P$1" python3 "$SMOKE/frames.py" count eth0 8 "$2" --first
	is_ready watch
	frames "$3" station eth0 "$station" "${@:4}"
	wait_gone "$last_pid" 200
	tail -n 1 "$TMP/watch.log"
}
from=${station//:/}
assert_eq "$(sees d "${from}88a8000788b5" c --tci 7 --tpid 0x88a8)" 1 "a service tag from c to d"
assert_eq "$(sees c "${from}88a8a00788b5" d --tci 0xa007 --tpid 0x88a8)" 1 "a service tag from d to c"
assert_eq "$(sees d "${from}8100000988b5" c --tci 9)" 1 "an ordinary tag"

# ----- four idle ports: all threads together wake up about 30 times a second. Wake-ups are counted, for what one costs is
# the machine's matter, and the build's (scripts/wake.sh measures the time that it takes); time has a wide limit alone.
spent() { cat /proc/"$router_pid"/task/*/schedstat | awk '{ time += $1; n += $3 } END { printf "%d %d\n", time / 1000, n }'; }
quiet() { # for 4 s
	local time wakes time_after wakes_after
	spent | read -r time wakes
	sleep 4
	spent | read -r time_after wakes_after
	echo "idle: $(((wakes_after - wakes) / 4)) wake-ups a second, $(((time_after - time) / 400)) hundredths of % of a core" >"$TMP/idle"
	assert_at_most $(((wakes_after - wakes) / 4)) 100 "wake-ups a second, idle"
	assert_at_most $(((time_after - time) / 400)) 500 "hundredths of % of a core, idle"
}
wait_for 60 quiet
cat "$TMP/idle"
assert_ping a 10.0.2.2

# ----- long frames, and changed settings are restored
router_stop
settings | diff "$TMP/before" - || fail "settings of interfaces were not given back"
for name in a b; do on $name ip link set eth0 mtu 9000; done
config 9000 | router_start
assert_ping a 10.0.2.2 -M do -s 8972
assert_ping a 2001:db8:2::2 -M do -s 8952
echo "TCP with an MTU of 9000, Mbit/s: $(transfer a b 10.0.2.2 5006 64 2)"
router_kill
config 1500 | router_start # takes over what the one before has changed
router_stop
settings | diff "$TMP/before" - || fail "settings of interfaces were not given back after a kill"
