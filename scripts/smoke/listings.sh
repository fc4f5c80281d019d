# `show routes` has every route of the kernel's tables, even beyond one part of an answer and with
# several routes for one prefix; a listing that is cut reports that.
. "$(dirname "$0")/lib.sh"
need ping ethtool python3

two_hosts
two_ports | router_start

# 6,000 prefixes of each family; every third has a second route with another metric, some have three.
{
	awk 'BEGIN { for (i = 0; i < 6000; i++) for (m = 0; m < (i % 300 == 0 ? 3 : i % 3 == 0 ? 2 : 1); m++)
		printf "route add 100.%d.%d.0/24 via 10.0.%d.2 metric %d\n", 64 + int(i / 256), i % 256, 1 + m % 2, 10 + m }'
} >"$TMP/routes4"
{
	awk 'BEGIN { for (i = 0; i < 6000; i++) for (m = 0; m < (i % 300 == 0 ? 3 : i % 3 == 0 ? 2 : 1); m++)
		printf "route add 2001:db8:%x::/48 via 2001:db8:%d::2 metric %d\n", 32768 + i, 1 + m % 2, 10 + m }'
} >"$TMP/routes6"
on r ip -batch "$TMP/routes4"
on r ip -6 -batch "$TMP/routes6"

# Lines `prefix metric` of both: every candidate, and the best one for each prefix.
same_listing() {
	rutter show routes -j >"$TMP/ours.json"
	on r ip -j route show table main >"$TMP/kernel4.json"
	on r ip -6 -j route show table main >"$TMP/kernel6.json"
	python3 - "$TMP" <<-'END'
		import collections, json, sys

		tmp = sys.argv[1]
		load = lambda name: json.load(open(f"{tmp}/{name}.json"))
		lots = lambda prefix: prefix.startswith(("100.", "2001:db8:8", "2001:db8:9"))
		kernel = collections.Counter(
		    (route["dst"], route.get("metric", 0))
		    for family in "46" for route in load("kernel" + family) if lots(route["dst"]))
		ours = [route for route in load("ours") if lots(route["prefix"])]
		listed = collections.Counter((route["prefix"], route["metric"]) for route in ours)
		for name, extra in ("missing", kernel - listed), ("too many", listed - kernel):
		    if extra:
		        print(f"{name}: {sum(extra.values())}, such as {sorted(extra)[:5]}")
		best = collections.Counter(route["prefix"] for route in ours if route["best"])
		sys.exit(kernel != listed or set(best.values()) != {1} or len(best) != 12000)
	END
}
wait_for 30 same_listing

# The text is the same listing, one line a route.
lines=$(rutter show routes | wc -l)
assert_eq "$lines" "$(json 'len(x)' <"$TMP/ours.json")" "lines of the text"

# A listing that is cut is reported on standard error; a whole one is silent.
rutter show routes --limit 5000 >"$TMP/cut.out" 2>"$TMP/cut.err"
assert_eq "$(wc -l <"$TMP/cut.out")" 5000 "lines of a listing with a limit"
assert_match "$(cat "$TMP/cut.err")" "the first 5000 routes are shown" "what is cut says so"
rutter show routes -j --limit 5000 2>"$TMP/cut.err" | json 'len(x)' | found 5000 || fail "-j with a limit"
assert_match "$(cat "$TMP/cut.err")" "the first 5000 routes are shown" "what is cut says so, with -j"
rutter show routes --limit "$lines" 2>"$TMP/cut.err" | cmp - <(rutter show routes) || fail "a limit that cuts nothing"
assert_eq "$(cat "$TMP/cut.err")" "" "what is whole says nothing"
router_stop
