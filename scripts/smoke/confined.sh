# The limits of the systemd unit: the router does all its work under them, and drops the rights that
# it does not need.
. "$(dirname "$0")/lib.sh"
need ping ethtool python3 setpriv systemd-analyze

[ -z "${RUTTER_SMOKE_USERNS:-}" ] || skip "a user namespace has neither other users nor mounts to change"
UNIT=$SMOKE/../../packaging/rutter.service

router_spawn() { # [CONFIGURATION on standard input]: as the unit would
	[ ! -p /dev/stdin ] || cat >"$TMP/rutter.toml"
	ip netns exec "${P}r" python3 "$SMOKE/confined.py" "$UNIT" "$TMP" "$RUTTER" run --config "$TMP/rutter.toml" \
		>>"$TMP/rutter.log" 2>&1 </dev/null &
	router_pid=$!
}

confined() { # PID CAPABILITIES: each of its threads has these, and no way to more
	local status
	for status in /proc/"$1"/task/*/status; do
		awk -v have="^0*$2\$" '
			/^Cap(Prm|Eff|Bnd):/ && $2 !~ have { bad = 1 }
			/^Cap(Inh|Amb):/ && $2 !~ /^0*$/ { bad = 1 }
			/^NoNewPrivs:/ && $2 != 1 { bad = 1 }
			END { exit bad }' "$status" || { cat "$status"; fail "a thread has more privileges"; }
	done
}

settings() { # what the kernel is set to, but for the taps
	on r sysctl -a 2>/dev/null | grep -E 'forwarding|disable_ipv6' | grep -vE '\.(p[01]|red|blue)' || true
}

two_hosts
station c v2 10.0.3.2/24 10.0.3.1 2001:db8:3::2/64 2001:db8:3::1
tagged b eth0 t7 7
on b ip address add 10.7.0.2/24 dev t7
before=$(settings)
{
	two_ports
	cat <<-END
		[ports.p1.vlan.7]
		addresses = ["10.7.0.1/24"]
		[vrf.blue]
		table = 100
		routes = "fpm"
		[ports.red]
		device = "$(device 2 v2)"
		addresses = ["10.0.3.1/24", "2001:db8:3::1/64"]
		vrf = "blue"
		[[route]]
		prefix = "10.9.0.0/16"
		via = "10.0.2.2"
	END
} >"$TMP/rutter.toml"

all_works() { # CAPABILITIES
	assert_ping a 10.0.2.2
	assert_ping a 2001:db8:2::2
	assert_ping a 10.0.1.1 # the kernel's answer
	assert_ping a 10.7.0.2 # by a tag
	assert_ping c 10.0.3.1
	assert_ping c 2001:db8:3::1
	assert_no_ping a 10.0.3.2
	on r ip route add 10.8.0.0/16 via 10.0.2.2
	wait_for 5 sh -c "'$RUTTER' show routes | grep -q 10.8.0.0/16"
	rutter show routes | found 10.9.0.0/16 || fail "the static route is not there"
	background zebra ip netns exec "${P}r" python3 -c 'import socket, time
s = socket.create_connection(("127.0.0.1", 2620)); print("ready", flush=True); time.sleep(60)'
	wait_for 5 sh -c "'$RUTTER' show system -j | grep -q '\"connected\"'"
	rutter span add watch -p p0 --file "$TMP/watch.pcap"
	assert_ping a 10.0.2.2
	rutter span del watch
	[ "$(stat -c %s "$TMP/watch.pcap")" -gt 100 ] || fail "the mirror's file is empty"
	pinging a 10.0.2.2 0.1 # until the capture has begun
	timeout 20 "$RUTTER" capture -c 1 -w "$TMP/one.pcapng" || fail "capture"
	pinged "one is captured"
	on r ip route del 10.8.0.0/16
	confined "$router_pid" "$1"
}

# Under the unit's limits, from the first instruction on.
: >"$TMP/rutter.log"
router_spawn
for ((i = 0; i < 300 * PATIENCE; i++)); do
	! rutter show system >/dev/null 2>&1 || break
	kill -0 "$router_pid" 2>/dev/null || break
	sleep 0.1
done
! grep -q '^skip: ' "$TMP/rutter.log" || skip "$(sed -n 's/^skip: //p' "$TMP/rutter.log")"
router_ready
all_works 3000 # NET_ADMIN, NET_RAW
! "$RUTTER" span add bad -p p0 --file /var/tmp/watch.pcap >/dev/null 2>&1 || fail "the file system is not read-only"
router_stop
assert_eq "$(settings)" "$before" "settings after it"
on r ip link show p0 >/dev/null || fail "the taps are gone"

# A squatter of another user does not keep the router out, although the router cannot look into that
# process.
background squatter ip netns exec "${P}r" python3 -c 'import os, socket, time
os.setgroups([]); os.setgid(65534); os.setuid(65534)
s = socket.socket(socket.AF_UNIX); s.bind("\0rutter"); s.listen(0); print("ready", flush=True); time.sleep(60)'
is_ready squatter
router_start
assert_match "$(cat "$TMP/rutter.log")" "of user 65534 has the socket @rutter" "the warning"
assert_ping a 10.0.2.2
router_kill
kill "$last_pid"

# After a crash the next start restores the settings, even without the unit's limits: it drops the
# other rights itself.
ip netns exec "${P}r" "$RUTTER" run --config "$TMP/rutter.toml" >>"$TMP/rutter.log" 2>&1 </dev/null &
router_pid=$!
router_ready
all_works 3000
rutter stop --remove
wait "$router_pid" || fail "the router ended with status $?"
router_pid=
assert_eq "$(settings)" "$before" "settings after it"
! on r ip link show p0 >/dev/null 2>&1 || fail "the taps are left"

# Files that others could have put beside the socket are not touched, and the error gives the remedy.
mkdir "$TMP/open" && chmod 1777 "$TMP/open"
assert_status 2 on r "$RUTTER" --socket "$TMP/open/api.sock" run --config "$TMP/rutter.toml"
assert_match "$(cat "$TMP/status.out")" "open is not safe: others can write to it; name one that only root" "why"
mkdir "$TMP/own" "$TMP/etc"
echo kept >"$TMP/etc/victim"
for planted in lock settings; do
	ln -sfn "$TMP/etc/victim" "$TMP/own/api.sock.$planted"
	assert_status 2 on r "$RUTTER" --socket "$TMP/own/api.sock" run --config "$TMP/rutter.toml"
	assert_match "$(cat "$TMP/status.out")" "api.sock.$planted is not safe: it is a link" "why"
	rm "$TMP/own/api.sock.$planted"
done
printf 'net/ipv4/ip_forward\t1\t0\n' >"$TMP/own/api.sock.settings"
chown 65534 "$TMP/own/api.sock.settings"
assert_status 2 on r "$RUTTER" --socket "$TMP/own/api.sock" run --config "$TMP/rutter.toml"
assert_match "$(cat "$TMP/status.out")" "settings is not safe: it belongs to user 65534" "why"
assert_eq "$(cat "$TMP/etc/victim")" kept "the file that links lead to"
