# The request channel of a shield with two workers, on the wire to its Grantor: a flood from forged
# sources asks for more than the channel carries. The channel keeps to its bandwidth, and a source
# that asks once a second comes before all that ask for the first time. The flood has more flows than
# the table has places: requests make room, and a grant stays.
. "$(dirname "$0")/lib.sh"
. "$SMOKE/shield.sh"

readonly CHANNEL=$((1000000 * 5 / 100 / 8)) # bytes a second: 5 % of 1 Mbit/s; its burst is one second's
readonly ASKS=10                            # of the patient source

shield_hosts
ENTRIES=4096 shield_config "bandwidth_mbps = 1" | router_start
wait_for 10 grantors_found
# Of all others nothing is decided: what comes asks.
grantor_start 10.0.1.2/32=grant:2000:600:300000:60000 0.0.0.0/0=drop
assert_ping c 203.0.113.5
asked() { heard "dscp=([3-9]|[1-6][0-9]) .*inner=10.0.1.2>203.0.113.5 "; }
asked_before=$(asked)

bytes_sent() { # so far, as the channel counts them: a frame's, and 24 more
	sed -n 's/.* len=\([0-9]*\) .*/\1/p' "$TMP/heard" | awk '{ sum += 14 + $1 + 24 } END { print sum + 0 }'
}
full() { # requests that were dropped because more patient ones wait
	rutter gatekeeper protect -j | json "sum(c['count'] for p in x for c in p['drops'] if c['what'] == 'solicit.full')"
}
floods() {
	[ "$(full)" -gt 0 ]
}

background flood ip netns exec "${P}c" python3 "$SMOKE/odd.py" send eth0 "$(mac_of r p0)" 10.9.0.1 203.0.113.80 \
	--count 100000 --sources 100000 --rate 1000
flood_pid=$last_pid
wait_for 20 floods # its frames are made before the first is sent
before=$(bytes_sent) begin=$(now_ms)

# The first packet of the patient source has the flood's priority: it may find no room. The others
# come a second later each: 42; where one is late by a tenth of that it has 43, and so have the next.
client_sends 10.0.1.67 203.0.113.5 --count $ASKS --apart 1 >/dev/null
wait_for 5 heard_so_many $((ASKS - 1)) " dscp=4[23] .*inner=10.0.1.67>203.0.113.5 "
assert_at_most "$(heard "inner=10.0.1.67>")" $ASKS "packets of the patient source"

# The channel's bytes: what it may and a burst at most, and most of what it may.
sent=$(($(bytes_sent) - before)) ms=$(($(now_ms) - begin))
echo "# $sent bytes of requests left in $ms ms"
assert_at_most $sent $((CHANNEL * ms / 1000 + CHANNEL)) "bytes of requests in $ms ms"
[ $sent -ge $((CHANNEL * ms / 1000 * 3 / 4)) ] || fail "$sent bytes of requests in $ms ms, with a flood that waits"
assert_no_match "$(grep -o "dscp=.*inner=10\.9\." "$TMP/heard" | sort -u)" "dscp=([^4]|4[^1])" "priorities of the flood"

# Both workers have sent requests: what they put out, but for what came from the kernel.
sums="[sum({'output': n['packets'], 'kernel_input': -n['packets']}.get(n['name'], 0) for n in w['nodes']) for w in x['workers']]"
workers=$(rutter show runtime -j | json "$sums")
json "len(x) == 2 and min(x) >= 10" <<<"$workers" | found True || fail "requests that workers have sent: $workers"

# The table is full.
replaced="x['flows']['replaced']"
rutter gatekeeper show -j | json "'# replaced: ' + str($replaced)"
rutter gatekeeper show -j | json "$replaced[0] > 0 and $replaced[2] == 0 and x['flows']['refused'] == 0" | found True ||
	fail "flows that made room: $(rutter gatekeeper show -j | json "x['flows']")"
assert_ping c 203.0.113.5
flows_are 1 granted from 10.0.1.2/32 || fail "the grant is gone"
assert_eq "$(asked)" "$asked_before" "requests of the granted client"

kill -0 "$flood_pid" || fail "the flood was over"
kill -TERM "$flood_pid"
router_stop
