# The user's view: every `show`, JSON, help, mistakes, trace, capture, completion.
. "$(dirname "$0")/lib.sh"
need ping ethtool python3 tcpdump

# Mistakes are reported with file and line before anything starts.
cat >"$TMP/wrong.toml" <<-'END'
	workers = [0]
	[ports.p0]
	device = "mem"
	adresses = ["10.0.0.1/24"]
END
assert_status 2 rutter config check "$TMP/wrong.toml"
assert_match "$(cat "$TMP/status.out")" "wrong.toml:4.*addresses" "the mistake's place, and what was meant"
assert_status 2 rutter run --config "$TMP/wrong.toml"
rutter config example >"$TMP/example.toml"
assert_status 0 rutter config check "$TMP/example.toml"

two_hosts
two_ports | router_start
assert_ping a 10.0.2.2
assert_ping a 2001:db8:2::2

for what in ports interfaces routes neighbours bridges macs graph runtime drops fib capacity system; do
	assert_status 0 rutter show $what
	rutter show $what -j >"$TMP/show.json" || fail "show $what -j"
	json 'type(x)' <"$TMP/show.json" >/dev/null || fail "show $what -j is no JSON"
done
assert_match "$(rutter show graph)" "ip4_lookup|ip4_input" "nodes in the graph"
assert_match "$(rutter show fib)" "dir-24-8|dxr|rutter4" "the engine"
assert_eq "$(rutter show interfaces -j | json 'next(i["rx_packets"] > 0 for i in x if i["name"] == "p0")')" True "packets counted on p0"

assert_status 0 rutter --help
for command in run demo doctor show route neighbour trace capture fib stop config engines lookup check lab completion version; do
	assert_status 0 rutter $command --help
done
rutter config example -j | json 'x["toml"].rstrip()' | cmp - "$TMP/example.toml" || fail "config example -j"
rutter config show -j | json '"ports.p0" in x["toml"]' | found True || fail "config show -j"
rutter completion bash -j | json 'x["script"]' | found complete || fail "completion -j"
assert_eq "$(rutter show macs -j)" "[]" "the stations of a router without bridges"
for shell in bash zsh fish; do
	[ "$(rutter completion $shell | wc -l)" -gt 10 ] || fail "completion $shell"
done
assert_status 2 rutter show nonsense
assert_status 2 rutter trace add 1 net 10.0.0.1/8
assert_match "$(cat "$TMP/status.out")" "10.0.0.1/8" "the prefix that is none"
assert_status 2 rutter fib engine set dxr -o k=18 -o k=18
assert_match "$(cat "$TMP/status.out")" "\`k\` is given twice" "the option that is given twice"
assert_status 2 rutter fib engine set dxr:k=99
assert_match "$(cat "$TMP/status.out")" "k" "the option that is out of range"
# An option is the running table's: the array of dxr has 2^k entries of 4 bytes.
fib4() { rutter show fib -j | json "next(f[\"$1\"] for f in x if f[\"family\"] == \"ipv4\")"; }
of_k() {
	rutter fib engine set "dxr:k=$1" >/dev/null || fail "dxr:k=$1"
	assert_eq "$(fib4 engine)" dxr "the engine after dxr:k=$1"
	fib4 table_bytes
}
small=$(of_k 16) large=$(of_k 18)
[ "$small" -ge $((4 << 16)) ] && [ "$small" -lt $((4 << 18)) ] && [ "$large" -ge $((4 << 18)) ] ||
	fail "dxr takes $small bytes with k=16, $large with k=18"
assert_ping a 10.0.2.2
assert_match "$(rutter engines)" "dir-24-8" "engines"
rutter engines -j | json 'x[0]["name"]' >/dev/null
rutter doctor >"$TMP/doctor.out" 2>&1 || [ $? = 1 ] || fail "doctor"

# A running instance reports on its own network namespace and cores.
rutter doctor -j >"$TMP/doctor.json" || [ $? = 1 ] || fail "doctor -j"
there=$(on r readlink /proc/self/ns/net)
assert_match "$(json 'next(f["found"] for f in x if f["what"] == "running instance")' <"$TMP/doctor.json")" \
	"process $(rutter show system -j | json 'x["pid"]'), in the network namespace ${there//[\[\]]/.}" "whom the doctor asked"
assert_match "$(json 'next(f["found"] for f in x if f["what"] == "cores")' <"$TMP/doctor.json")" "workers on [0-9]" "its cores"
assert_match "$(json 'next(f["found"] for f in x if f["what"] == "ports")' <"$TMP/doctor.json")" "2, all with a link" "its ports"
on b ip link set eth0 down
down() {
	rutter doctor -j >"$TMP/doctor.json" || [ $? = 1 ] || return
	json 'next(f["found"] for f in x if f["what"] == "ports")' <"$TMP/doctor.json" | found "1 of 2 without a link: p1"
}
wait_for 10 down
host_up b 10.0.2.1 2001:db8:2::1
wait_for 10 reaches a 10.0.2.2

# The engine and its prefixes are asked for one address. (The neighbour has been lost with its link.)
meets() {
	assert_match "$(rutter fib lookup 10.0.2.2)" "^engine [a-z0-9-]+: hop [0-9]+, forward, dev p1 to $(mac_of b eth0)" "what a packet meets"
}
wait_for 5 meets
assert_match "$(rutter fib lookup 10.0.2.2)" "^prefix 10.0.2.2/32: hop" "the prefix that it meets"
assert_match "$(rutter fib lookup 10.0.2.2)" "^route  10.0.2.0/24 dev p1" "the route behind it"
assert_match "$(rutter fib lookup 2001:db8:1::1)" "for-us" "an address of the router's"
assert_status 1 rutter fib lookup 198.51.100.1
assert_status 2 rutter fib lookup 10.0.2.2 --vrf red
rutter fib lookup 10.0.2.2 -j | json 'x["same"] and x["served"]["hop"] == x["stored"]["hop"]' | found True || fail "fib lookup -j"

# Signals without a meaning end nothing.
for signal in USR1 USR2; do kill -$signal "$router_pid"; done
sleep 0.5
assert_ping a 10.0.2.2

# A trace shows a packet's path.
pinging a 10.0.2.2 0.2
way=$(timeout 20 "$RUTTER" trace add 2 icmp and host 10.0.2.2) || fail "trace"
assert_match "$way" "ip4_lookup" "the way of a packet"

# A client that is gone holds up no other for long.
timeout 1 "$RUTTER" trace add 1000 icmp >/dev/null || true
timeout 20 "$RUTTER" trace add 1 icmp >/dev/null || fail "a trace after one that was broken off"

# A capture is a file that tcpdump reads.
background pinging6 ip netns exec "${P}a" python3 "$SMOKE/frames.py" echo 2001:db8:2::2 --interval 0.2
is_ready pinging6
background capture "$RUTTER" capture -w "$TMP/capture.pcapng" icmp
capture_pid=$last_pid
captured() { tcpdump -n -r "$TMP/capture.pcapng" 2>/dev/null >"$TMP/captured"; [ "$(grep -c 'echo request' "$TMP/captured")" -ge "$1" ]; }
wait_for 20 captured 5
kill -INT "$capture_pid"
wait_gone "$capture_pid" 50 || fail "capture does not end on SIGINT"
pinged "a trace and a capture are taken"
seen=$(tcpdump -n -r "$TMP/capture.pcapng" 2>/dev/null)
assert_match "$seen" "10.0.1.2 > 10.0.2.2: ICMP echo request" "captured packets"
assert_no_match "$seen" "ICMP6" "packets that the filter excludes"
