# A worker whose core other processes use is "starved by the scheduler": runtime, doctor and log report it.
. "$(dirname "$0")/lib.sh"
need ping ethtool python3 taskset
[ -e /proc/self/schedstat ] || skip "the kernel does not count what threads wait"

two_hosts
{
	echo 'idle = "poll"' # it always wants its core
	two_ports
} | router_start
assert_ping a 10.0.2.2
core=$(rutter show system -j | json 'x["workers"][0]')
background hog taskset -c "$core" sh -c 'while :; do :; done'
hog=$last_pid

starved() { assert_match "$(rutter show runtime)" "worker-0 .*starved by the scheduler: waited [0-9.]+ s for its core" "the worker"; }
wait_for 30 starved
assert_eq "$(rutter show runtime -j | json 'x["workers"][0]["starved_ns"] > 10**7')" True "the time in JSON"
logged() { grep -q "worker-0 is starved by the scheduler: it waited .* for core $core" "$TMP/rutter.log"; }
wait_for 5 logged
assert_status 1 rutter doctor
assert_match "$(cat "$TMP/status.out")" "better +workers' time +starved by the scheduler: worker-0 waited" "the doctor"
kill -TERM "$hog"
assert_ping a 10.0.2.2
router_stop
