# One instance for a socket; the socket belongs to its owner; malformed clients harm nobody.
. "$(dirname "$0")/lib.sh"
need ping ethtool python3

two_hosts
two_ports | router_start
assert_eq "$(stat -c %a "$SOCKET")" 600 "mode of the socket"

# A second instance is refused, and the first one named.
told=$(on r "$RUTTER" run --config "$TMP/rutter.toml" 2>&1) && fail "a second instance starts"
assert_match "$told" "$router_pid|already|running" "why a second instance is refused"
assert_ping a 10.0.2.2

# Nor does one with another socket, or its cleanup, take this one apart.
on r ip route add 10.77.0.0/16 via 10.0.2.2 proto 198
for how in "" --cleanup; do
	assert_status 2 on r "$RUTTER" --socket "$TMP/other.sock" run --config "$TMP/rutter.toml" $how
	assert_match "$(cat "$TMP/status.out")" "network namespace: process $router_pid, $SOCKET" "why it is refused"
done
on r ip route show | found 10.77.0.0/16 || fail "another instance has flushed the routes"

# A process of somebody else that holds the name keeps no router from starting.
router_stop
background squatter ip netns exec "${P}r" python3 -c 'import os, socket, time
os.setgroups([]); os.setgid(65534); os.setuid(65534)
s = socket.socket(socket.AF_UNIX); s.bind("\0rutter"); s.listen(0); print("ready", flush=True); time.sleep(60)'
is_ready squatter
router_start
assert_ping a 10.0.2.2
assert_match "$(cat "$TMP/rutter.log")" "process .* of user 65534 has the socket @rutter" "the warning"
kill "$last_pid"
router_stop
router_start

# A file that is not a socket is not taken for one, and stays.
echo mine >"$TMP/notes"
assert_status 2 on r "$RUTTER" --socket "$TMP/notes" run --config "$TMP/rutter.toml"
assert_match "$(cat "$TMP/status.out")" "not a socket" "why a file is refused"
assert_eq "$(cat "$TMP/notes")" mine "the file that was named"
assert_status 2 on r "$RUTTER" --socket "$TMP/$(printf '%0108d' 0)" run --config "$TMP/rutter.toml"

# Incomplete requests and noise, held open while others are served.
background noise python3 "$SMOKE/frames.py" garbage "$SOCKET" --hold 3
for _ in 1 2 3 4 5; do
	rutter show ports >/dev/null || fail "show ports while noise is sent"
	sleep 0.3
done
assert_ping a 10.0.2.2

# The socket of a dead instance is no obstacle.
router_kill
[ -S "$SOCKET" ] || fail "no stale socket to test with"
assert_status 2 rutter show ports
router_start
assert_ping a 10.0.2.2

# A capture without a reader holds up neither others nor the end.
background stuck "$RUTTER" capture -w "$TMP/stuck.pcapng"
stuck=$last_pid
wait_for 20 [ -s "$TMP/stuck.pcapng" ]
kill -STOP "$stuck"
on a ping -n -q -f -c 2000 -s 1400 -W 1 10.0.2.2 >/dev/null || true
timeout 5 "$RUTTER" show drops >/dev/null || [ $? = 1 ] || fail "show drops beside a stopped capture"
kill -TERM "$router_pid"
sleep 0.02
kill -TERM "$router_pid" 2>/dev/null || true # as `timeout` does: still in order
wait_gone "$router_pid" 100 || fail "a stopped capture holds up SIGTERM"
! grep -q "a second signal" "$TMP/rutter.log" || fail "a repeated SIGTERM ends it out of order"
kill -CONT "$stuck"
wait "$router_pid" || true
router_pid=
assert_status 2 rutter show ports

# A start that fails late leaves nothing behind: FRR's port is in use, which is found last but for
# the socket.
on r "$RUTTER" run --cleanup --config "$TMP/rutter.toml"
state() {
	on r ip -br link | cut -d ' ' -f 1
	on r sysctl -a 2>/dev/null | grep -E 'forwarding|disable_ipv6'
	on r ip rule
}
state >"$TMP/before"
{
	cat "$TMP/rutter.toml"
	printf '[vrf.main]\nroutes = "fpm"\n'
} >"$TMP/fpm.toml"
background taken ip netns exec "${P}r" python3 -c 'import socket, time
s = socket.create_server(("127.0.0.1", 2620)); print("ready", flush=True); time.sleep(60)'
is_ready taken
assert_status 2 on r "$RUTTER" run --config "$TMP/fpm.toml"
assert_match "$(cat "$TMP/status.out")" "listen for FRR" "why it does not start"
state | diff "$TMP/before" - || fail "the failed start has left something behind"

# Nor does a start whose device is missing: that is reported before anything starts, with its place.
# A fault that is found later reverts everything.
rm -f "$SOCKET"*
echo 'ports = { p1 = { device = "net_af_packet1,iface=nosuch0" } }' >"$TMP/absent.toml"
assert_status 2 on r "$RUTTER" run --config "$TMP/absent.toml"
assert_match "$(cat "$TMP/status.out")" \
	"absent.toml:1:27: ports.p1.device: no interface is called .nosuch0.; expected one .*: .*v0" "the place"
printf '[ports.p0]\n device = "net_af_packet0,iface=v0"\nmtu = 9000\n' >"$TMP/large.toml"
on r ip link set v0 down
state >"$TMP/before"
on r ip -br link show v0 | awk '{ print $2 }' >"$TMP/v0"
assert_status 2 on r "$RUTTER" run --config "$TMP/large.toml"
assert_match "$(cat "$TMP/status.out")" "large.toml:2:11: ports.p0.device: start: " "the place"
state | diff "$TMP/before" - || fail "the failed start has left something behind"
on r ip -br link show v0 | awk '{ print $2 }' | diff "$TMP/v0" - || fail "the link below is not as before"
[ -z "$(ls "$SOCKET"* 2>/dev/null)" ] || fail "files are left: $(ls "$SOCKET"*)"
