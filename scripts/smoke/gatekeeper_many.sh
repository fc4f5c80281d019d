# A hundred thousand protections in a running router: it starts, takes one more while packets flow,
# and passes granted packets. The times are printed, but not checked; memory is bounded.
. "$(dirname "$0")/lib.sh"
. "$SMOKE/shield.sh"

MANY=100000
shield_hosts
{
	shield_config
	python3 -c "
for n in range($MANY):
    prefix = '172.%d.%d.%d/32' % (16 + (n >> 16), n >> 8 & 255, n & 255)
    print('[[gatekeeper.protect]]\nprefix = \"%s\"\ngrantors = [\"10.0.2.2\"]' % prefix)"
} >"$TMP/rutter.toml"
ms() { date +%s%3N; }
begun=$(ms)
router_spawn </dev/null
answers() { rutter show system >/dev/null 2>&1; }
wait_for 120 answers
started=$(($(ms) - begun))
wait_for 10 grantors_found
assert_eq "$(rutter gatekeeper show -j | json 'x["protections"]')" $((MANY + 2)) "protections"
assert_eq "$(on r ip route show proto 199 | grep -c '^blackhole 172')" $MANY "routes that show them"

# Changes while packets flow, of which none leaves bare.
watch g
client_sends 10.0.1.2 203.0.113.5 --count 3000 --rate 500 >/dev/null &
stream=$!
begun=$(ms)
rutter gatekeeper protect add 198.51.100.0/24 via 10.0.2.2
added=$(($(ms) - begun))
begun=$(ms)
rutter gatekeeper protect del 172.16.0.7
deleted=$(($(ms) - begun))
rutter gatekeeper protect add 172.16.0.7/32 via 10.0.2.2
wait $stream
ten_came() { [ "$(came wrapped)" -ge 10 ]; } # requests while protections changed
wait_for 5 ten_came
assert_eq "$(came bare)" 0 "packets that leaked while protections changed"
kib=$(awk '/^VmRSS/ { print $2 }' "/proc/$router_pid/status")
echo "# $MANY protections: start $started ms, add $added ms, delete $deleted ms, $((kib / 1024)) MiB"
assert_at_most "$((kib / 1024))" 1024 "MiB of memory"

grantor_start 10.0.1.2/32=grant:1000:600:60000:60000
assert_ping c 203.0.113.5
odd c send eth0 "$(mac_of r p0)" 10.0.1.2 172.17.134.159 >/dev/null # the last one
wait_for 5 heard_so_many 1 "inner=10.0.1.2>172.17.134.159 "
rutter show capacity | found "^protections  *100,003" || fail "the capacity does not say so many"
