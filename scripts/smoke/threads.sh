# A failing thread: without free descriptors feed and API wait; a lost socket is opened again, three
# times a minute; then the router ends with status 3, restores settings, keeps its taps.
. "$(dirname "$0")/lib.sh"
need ping ethtool python3 prlimit ss

feed() { # its state
	rutter show system -j | json '[f["state"] for f in x["feeds"] if f["name"] == "fpm"][0]'
}

feed_is() { # STATE
	assert_eq "$(feed)" "$1" "the feed"
}

listens() {
	on r ss -Hltn "sport = :2620" | found :2620
}

zebra() { # NAME: one that connects and says nothing
	background "$1" ip netns exec "${P}r" python3 -c 'import socket, time
s = socket.create_connection(("127.0.0.1", 2620)); print("ready", flush=True); time.sleep(60)'
	is_ready "$1"
}

settings() { # what the kernel is set to, but for the taps
	on r sysctl -a 2>/dev/null | grep -E 'forwarding|disable_ipv6' | grep -vE '\.p[01]\.' || true
}

two_hosts
before=$(settings)
{ two_ports; printf '[vrf.frr]\ntable = 100\nroutes = "fpm"\n'; } >"$TMP/rutter.toml"
router_start
assert_ping a 10.0.2.2
feed_is "waiting for FRR"

# No descriptor is free: connections wait, and the data plane continues.
usual=$(prlimit --pid "$router_pid" --nofile --noheadings --output SOFT,HARD | awk '{ print $1 ":" $2 }')
prlimit --pid "$router_pid" --nofile="3:${usual#*:}"
zebra early
wait_for 5 grep -q "the feed fpm: a connection cannot be taken: Too many open files" "$TMP/rutter.log"
background asking "$RUTTER" show ports
asking=$last_pid
sleep 1
kill -0 "$asking" || fail "a client is answered, or sent away, without a descriptor"
assert_ping a 10.0.2.2
prlimit --pid "$router_pid" --nofile="$usual"
wait "$asking" || fail "the client that waited is not answered"
wait_for 5 feed_is connected
wait_for 5 grep "the feed fpm works again" "$TMP/rutter.log"
assert_no_match "$(cat "$TMP/rutter.log")" "started again" "what is reported: it is no reason to end"

# Somebody destroys the socket: it is opened again, and FRR finds it.
killed=$(on r ss -HKltn "sport = :2620" 2>/dev/null || true) # those that it has destroyed
[ -n "$killed" ] || skip "the kernel does not destroy sockets (INET_DIAG_DESTROY)"
wait_for 5 grep -q "the thread fpm is started again in 100ms" "$TMP/rutter.log"
wait_for 5 listens
zebra late
wait_for 5 feed_is connected
for pause in 1s 10s; do
	on r ss -HKltn "sport = :2620" >/dev/null
	wait_for 5 grep -q "the thread fpm is started again in $pause" "$TMP/rutter.log"
	assert_ping a 10.0.2.2
	wait_for 15 listens
done

# The fourth time in a minute ends the router.
on r ss -HKltn "sport = :2620" >/dev/null
wait_gone "$router_pid" 50 || fail "a feed beyond its restarts leaves a router that hears no routes"
status=0
wait "$router_pid" || status=$?
router_pid=
assert_eq "$status" 3 "exit status"
assert_eq "$(grep -c "the thread fpm ends: Invalid argument" "$TMP/rutter.log")" 4 "ends that are reported"
assert_match "$(tail -n 1 "$TMP/rutter.log")" "the thread fpm has died" "the last words"
assert_eq "$(settings)" "$before" "settings after it"
for tap in p0 p1; do on r ip link show "$tap" >/dev/null || fail "the tap $tap is gone"; done

# As systemd would do.
router_start
assert_ping a 10.0.2.2
router_stop
