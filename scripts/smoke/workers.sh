# Two workers, and one port's packets spread over both: flows keep their order.
. "$(dirname "$0")/lib.sh"
need ping ethtool python3
[ "$(nproc)" -gt 1 ] || skip "one core"

two_hosts
{
	printf 'workers = [0, 1]\nspread = true\n'
	two_ports "queues = 1"
} | router_start
assert_ping a 10.0.2.2
assert_ping a 2001:db8:2::2
assert_no_loss a 10.0.2.2 100

frames a flood eth0 "$(mac_of r p0)" 10.0.1.2 10.0.2.2 --ports 64 --rate 5000 --seconds 2 >/dev/null
busy() {
	assert_eq "$(rutter show runtime -j |
		json 'sum(any(n["packets"] > 100 and "ip4" in n["name"] for n in w["nodes"]) for w in x["workers"])')" 2 "workers that forwarded"
}
wait_for 5 busy
assert_eq "$(rutter show runtime -j | json 'all(w["alive"] for w in x["workers"])')" True "workers alive"

# A long transfer arrives without a segment out of order. The kernel forwards packets into a veth on
# the core that sends them: a flow that two cores send would be out of order before it arrives.
# Therefore one core sends it all.
for at in a/eth0 b/eth0 r/v0 r/v1; do
	on "${at%/*}" sh -c "echo 1 >/sys/class/net/${at#*/}/queues/rx-0/rps_cpus" 2>/dev/null || true # where it may
done
disordered() {
	on b awk '/^TcpExt:/ {
		if (!head++) for (i = 1; i <= NF; i++) name[i] = $i
		else for (i = 1; i <= NF; i++) if (name[i] == "TCPOFOQueue") print $i
	}' /proc/net/netstat
}
# Lost packets: by the router, its devices, and the kernel where it was too busy for a wire.
lost() {
	local drops missed wires
	drops=$(rutter show drops -j | json 'sum(d["packets"] for d in x)')
	missed=$(rutter show ports -j | json 'sum(p["rx_missed"] + p["rx_no_buffer"] + p["tx_errors"] for p in x)')
	wires=$(python3 -c 'print(sum(int(line.split()[1], 16) for line in open("/proc/net/softnet_stat")))')
	echo $((drops + missed + wires))
}
before=$(disordered) lost_before=$(lost)
background sink ip netns exec "${P}b" python3 -c '
import socket
s = socket.create_server(("10.0.2.2", 5001)); print("ready", flush=True); c, _ = s.accept()
while c.recv(1 << 16): pass'
is_ready sink
on a timeout 60 python3 -c '
import socket
s = socket.create_connection(("10.0.2.2", 5001))
for _ in range(200): s.sendall(bytes(1 << 16))
s.close()' || fail "the transfer does not end"
wait_gone "$last_pid" 100 || fail "the transfer does not arrive"
# A lost packet is sent again, and comes late.
[ "$(lost)" -gt "$lost_before" ] || assert_eq "$(disordered)" "$before" "segments out of order"

# A bridge of such ports: a flooded frame reaches everybody, whichever worker floods it. Neighbour
# discovery is flooded, by the flow of its addresses.
router_stop
on r "$RUTTER" run --cleanup --config "$TMP/rutter.toml"
host c
link c eth0 r v2
on c ip address add 2001:db8:1::3/64 dev eth0 nodad
on b ip address add 2001:db8:1::4/64 dev eth0 nodad
{
	printf 'workers = [0, 1]\nspread = true\n'
	for i in 0 1 2; do printf '[ports.p%d]\ndevice = "%s"\nqueues = 1\n' $i "$(device $i v$i)"; done
	printf '[bridge.lan]\nports = ["p0", "p1", "p2"]\naddresses = ["2001:db8:1::1/64"]\n'
} | router_start
for from in a b c; do
	for to in 1 2 3 4; do assert_ping $from 2001:db8:1::$to; done
done
assert_no_match "$(rutter show drops)" no_buffer "floods without a buffer"
