# Without root and without a kernel's help: files as ports, static routes.
. "$(dirname "$0")/lib.sh"
need python3

cat >"$TMP/in.py" <<-'END'
	import socket, struct, sys
	def checksum(data):
	    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
	    while total >> 16: total = (total & 0xFFFF) + (total >> 16)
	    return ~total & 0xFFFF
	out = open(sys.argv[1], "wb")
	out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
	for i in range(100):
	    head = struct.pack("!BBHHHBBH", 0x45, 0, 46, i, 0, 64, 17, 0) + socket.inet_aton("10.0.1.2") + socket.inet_aton(f"10.9.0.{i}")
	    head = head[:10] + struct.pack("!H", checksum(head) ^ (i == 7)) + head[12:]
	    frame = bytes.fromhex("020000000001" "020000000099" "0800") + head + struct.pack("!HHHH", 1, 9, 26, 0) + bytes(18)
	    out.write(struct.pack("<IIII", 0, i, len(frame), len(frame)) + frame)
END
python3 "$TMP/in.py" "$TMP/in.pcap"
cat >"$TMP/rutter.toml" <<-END
	workers = [0]
	[ports.p0]
	device = "pcap:$TMP/in.pcap,"
	mac = "02:00:00:00:00:01"
	addresses = ["10.0.1.1/24"]
	[ports.p1]
	device = "pcap:,$TMP/out.pcap"
	mac = "02:00:00:00:00:02"
	addresses = ["10.0.2.1/24"]
	[[route]]
	prefix = "10.9.0.0/16"
	via = ["10.0.2.2"]
	[[neighbour]]
	interface = "p1"
	address = "10.0.2.2"
	mac = "02:00:00:00:00:77"
END
"$RUTTER" run --config "$TMP/rutter.toml" >"$TMP/rutter.log" 2>&1 </dev/null &
router_pid=$!
router_ready
forwarded() { [ "$(rutter show ports -j | json 'next(p["tx_packets"] for p in x if p["name"] == "p1")')" = 99 ]; }
wait_for 10 forwarded
assert_match "$(rutter show drops)" "checksum .* 1( |$)|1 .*checksum" "the one with a wrong checksum"

# Checks that otherwise the kernel makes, and facts that it otherwise knows.
neighbour() { rutter -j neighbour "$1" 10.0.1.9 --interface p0 ${2:+--mac "$2"}; }
assert_eq "$(neighbour add 02:00:00:00:00:09)" '{"warnings":[]}' "a change in JSON"
assert_status 0 neighbour del
assert_status 1 neighbour del
assert_match "$(cat "$TMP/status.out")" "there is no neighbour 10.0.1.9 at p0" "what is not there"
assert_status 2 rutter route add 10.8.0.0/16 via 10.0.1.1
assert_match "$(cat "$TMP/status.out")" "own address" "why its own address is no gateway"
assert_status 2 rutter route add 2001:db8:8::/48 via 10.0.1.2
assert_match "$(cat "$TMP/status.out")" "IPv6 gateways" "why IPv4 is no way for IPv6"
assert_status 2 rutter route add 10.8.0.0/16 dev p7
assert_match "$(cat "$TMP/status.out")" "no interface is called .p7.; there are: p0, p1" "the interface"
router_stop
python3 - "$TMP/out.pcap" <<-'END' || fail "what was written"
	import sys
	data = open(sys.argv[1], "rb").read()
	frames, at = [], 24
	while at < len(data):
	    size = int.from_bytes(data[at + 8:at + 12], "little")
	    frames.append(data[at + 16:at + 16 + size])
	    at += 16 + size
	good = len(frames) == 99 and all(f[:6].hex() == "020000000077" and f[22] == 63 for f in frames)
	sys.exit(not good)
END
