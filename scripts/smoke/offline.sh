# lookup, check, engines on table files, whole and damaged; exit status as documented.
. "$(dirname "$0")/lib.sh"
need python3

cat >"$TMP/table.txt" <<-'END'
	# prefix next-hop
	10.0.0.0/8 core
	10.1.0.0/16 east
	10.1.2.0/24 lab ; the lab
	2001:db8::/32 six
END
assert_eq "$(rutter lookup --table "$TMP/table.txt" 10.1.2.3)" "10.1.2.3	10.1.2.0/24	lab" "lookup"
assert_eq "$(rutter lookup --table "$TMP/table.txt" 10.2.0.1)" "10.2.0.1	10.0.0.0/8	core" "lookup"
assert_eq "$(rutter lookup --table "$TMP/table.txt" 2001:db8::1)" "2001:db8::1	2001:db8::/32	six" "lookup"
assert_status 1 rutter lookup --table "$TMP/table.txt" 11.0.0.1
assert_eq "$(cat "$TMP/status.out")" "11.0.0.1	-	-" "no route"
assert_status 2 rutter lookup --table "$TMP/table.txt" 10.1.2.300
assert_eq "$(printf '10.1.2.3 10.1.3.3\n' | rutter lookup --table "$TMP/table.txt" - | wc -l)" 2 "lookup of standard input"
assert_eq "$(rutter lookup --table "$TMP/table.txt" -j 10.1.2.3 | json 'x["hop"]')" lab "lookup -j"

printf '10.0.0.0/8 a\n10.0.0.0/33 b\n10.1.0.1/16 c\n' >"$TMP/damaged.txt"
assert_status 2 rutter lookup --table "$TMP/damaged.txt" 10.1.1.1
assert_match "$(cat "$TMP/status.out")" "damaged.txt:2" "the damage's place"
assert_match "$(cat "$TMP/status.out")" "10.1.1.1	10.0.0.0/8	a" "what could be read"
assert_status 2 rutter lookup --table "$TMP/nothing.txt" 10.1.1.1

gzip -k "$TMP/table.txt"
assert_eq "$(rutter lookup --table "$TMP/table.txt.gz" 10.1.2.3)" "10.1.2.3	10.1.2.0/24	lab" "a compressed table"

rutter engines -j >"$TMP/engines.json"
for engine in $(json '" ".join(e["name"] for e in x if e["kind"] == "lpm" and "ipv4" in e["families"])' <"$TMP/engines.json"); do
	assert_status 0 rutter check --table "internet:20000" --engine "$engine"
	assert_eq "$(rutter lookup --table "$TMP/table.txt" --engine "$engine" 10.1.2.3)" "10.1.2.3	10.1.2.0/24	lab" "$engine"
done
for engine in $(json '" ".join(e["name"] for e in x if e["kind"] == "lpm" and "ipv6" in e["families"])' <"$TMP/engines.json"); do
	assert_status 0 rutter check --table "internet6:20000" --engine "$engine"
done
assert_status 2 rutter check --table "internet:100" --engine no-such-engine
echo "# no route" >"$TMP/empty.txt"
assert_status 2 rutter check --table "$TMP/empty.txt" --engine rutter4
assert_match "$(cat "$TMP/status.out")" "empty.txt: there is no prefix" "a table without prefixes"
