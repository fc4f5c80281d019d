# Programs of a shield: a loaded object takes effect at once; flows of the program before it ask
# again, and the new program never sees their pages; a bad object is refused, and the old one stays;
# a failing program is counted; a number is loaded a hundred times while traffic flows.
. "$(dirname "$0")/lib.sh"
. "$SMOKE/shield.sh"

objects="$SMOKE/../../crates/policy/programs"
cp "$objects/granted.bpf" "$objects/declined.bpf" "$TMP"
# `declined` is two instructions: its result, and the end.
patched() { # NAME INSTRUCTION
	python3 -c 'import sys
object = open(sys.argv[1], "rb").read()
gives = bytes.fromhex("b700000001000000")
assert object.count(gives) == 1
open(sys.argv[2], "wb").write(object.replace(gives, bytes.fromhex(sys.argv[3])))' \
		"$TMP/declined.bpf" "$TMP/$1.bpf" "$2"
}
patched errs b700000002000000
patched loops 0500ffff00000000

shield_hosts
shield_config >"$TMP/plain.toml"
# The programs in the file are checked before anything starts.
{
	cat "$TMP/plain.toml"
	printf '[[gatekeeper.program]]\nindex = 9\nobject = "%s"\n' "$TMP/loops.bpf"
} >"$TMP/bad.toml"
! on r timeout 20 "$RUTTER" --socket "$TMP/bad.sock" run --config "$TMP/bad.toml" >"$TMP/said" 2>&1 || fail "a bad object of the file was taken"
assert_match "$(cat "$TMP/said")" "gatekeeper.program\[0\]: .*loops.bpf: pkt: instruction 0: a loop" "why"
{
	cat "$TMP/plain.toml"
	printf '[[gatekeeper.program]]\nindex = 9\nobject = "%s"\nname = "mine"\n' "$TMP/granted.bpf"
} | router_start
wait_for 10 grantors_found
# 4,000 KiB a second, with a renewal after an hour.
grantor_start 0.0.0.0/0=program:600:9:a00f000080ee3600b80b0000

program() { # INDEX FIELD
	rutter gatekeeper program show -j | json "next((p['$2'] for p in x if p['index'] == $1), None)"
}
names=$(rutter gatekeeper program show -j | json "' '.join(p['name'] for p in x)")
assert_eq "$names" "granted declined grantedv2 web tcp-services mine" "what is there"
assert_ping c 203.0.113.5
assert_eq "$(flows program program 9)" 1 "flows of program 9"
assert_eq "$(flows program program 8)" 0 "flows of program 8"

# Other code: the present flow asks, which passes once, and the new code decides about it.
asks_and_is_declined() { # INDEX
	assert_eq "$(flows program program "$1")" 0 "flows of the program before"
	assert_ping c 203.0.113.5
	wait_for 5 flows_are 1 program program "$1"
	assert_no_ping c 203.0.113.5
}
rutter gatekeeper program load 9 "$TMP/declined.bpf" >/dev/null
assert_eq "$(program 9 name)" declined "its name"
asks_and_is_declined 9
rutter gatekeeper program load 9 "$TMP/granted.bpf" --name mine >/dev/null
assert_ping c 203.0.113.5

# Objects that may do harm, and files that are no objects.
refused() { # FILE WORDS
	! rutter gatekeeper program load 9 "$1" >"$TMP/said" 2>&1 || fail "taken: $1"
	assert_match "$(cat "$TMP/said")" "$2" "why $1 is refused"
	assert_eq "$(program 9 name)" mine "what is there"
}
refused "$TMP/loops.bpf" "loops.bpf: pkt: instruction 0: a loop"
refused "$TMP/plain.toml" "no ELF object"
refused "$TMP/nothing" "No such file"
ln -s granted.bpf "$TMP/link.bpf"
refused "$TMP/link.bpf" "link"
assert_ping c 203.0.113.5

# It fails: its packets are dropped and counted, those of others pass.
tells "10.0.1.2>203.0.113.6=grant:1000:600:60000:1000"
wait_for 5 flows_are 1 granted
rutter gatekeeper program load 9 "$TMP/errs.bpf" >/dev/null
assert_eq "$(program 9 failed)" 0 "errors"
asks_and_is_declined 9
[ "$(program 9 failed)" -ge 1 ] || fail "its errors are not counted"
[ "$(drops failed)" -ge 1 ] || fail "what it dropped is not counted"
assert_ping c 203.0.113.6
rutter gatekeeper program load 9 "$TMP/granted.bpf" --name mine >/dev/null
assert_ping c 203.0.113.5

# It is replaced while traffic flows: no packet is lost, and no flow asks again.
inner=$(client_sends 10.0.1.2 203.0.113.5)
wait_for 5 heard_so_many 1 "dscp=1 .*inner=10.0.1.2>203.0.113.5 bytes=$inner " # and all before it
granted() { heard "dscp=1 .*inner=10.0.1.2>203.0.113.5 "; }
before=$(granted)
asked=$(heard "dscp=41 ")
swaps=0 sent=0
while [ $swaps -lt 20 ]; do # once, or on a busy machine a few times
	[ $sent -lt 10000 ] || fail "$swaps swaps in 25 s"
	background sender ip netns exec "${P}c" python3 "$SMOKE/odd.py" send eth0 "$(mac_of r p0)" 10.0.1.2 203.0.113.5 \
		--count 2000 --rate 400
	sender=$last_pid
	sent=$((sent + 2000))
	while kill -0 "$sender" 2>/dev/null; do
		rutter gatekeeper program load 9 "$TMP/granted.bpf" --name "mine $((swaps += 1))" >/dev/null
	done
done
all_came() { assert_eq "$(granted)" $((before + sent)) "packets before and now"; }
wait_for 10 all_came
assert_eq "$(heard "dscp=41 ")" "$asked" "packets that asked meanwhile"
echo "$swaps swaps under 400 packets a second"

# Flows are forgotten by the program's number; without the program they ask.
rutter gatekeeper flush --program 8 | found '^0 flows$' || fail "flows of a program that there is not"
rutter gatekeeper flush --program 9 | found '^1 flows$' || fail "flows of program 9"
assert_eq "$(flows granted)" 1 "flows of others"
assert_ping c 203.0.113.5
rutter gatekeeper program unload 9 >/dev/null
assert_eq "$(program 9 name)" None "what was unloaded"
assert_ping c 203.0.113.5 # what asks reaches the Grantor, too
[ "$(decisions unknown_program)" -ge 1 ] || fail "decisions without their program are not counted"
! rutter gatekeeper program unload 9 2>"$TMP/said" || fail "unloaded twice"
assert_match "$(cat "$TMP/said")" "no program was loaded as 9" "what is said"
# The last number decides like any other, and there is none behind it.
grantor_rules 0.0.0.0/0=program:600:255:a00f000080ee3600b80b0000
rutter gatekeeper program load 255 "$TMP/granted.bpf" --name last >/dev/null
rutter gatekeeper flush --all >/dev/null
assert_ping c 203.0.113.5
assert_eq "$(program 255 name) $(flows program program 255)" "last 1" "program 255, and its flows"
rutter gatekeeper program load 255 "$TMP/declined.bpf" >/dev/null
asks_and_is_declined 255
assert_status 2 rutter gatekeeper program load 256 "$TMP/granted.bpf"
rutter gatekeeper flush --program 255 | found '^1 flows$' || fail "flows of program 255"
rutter gatekeeper program unload 255 >/dev/null
# Built-in programs can be replaced, and come back.
grantor_rules 0.0.0.0/0=program:600:0:a00f000080ee3600b80b0000
rutter gatekeeper flush --all >/dev/null
assert_ping c 203.0.113.5
rutter gatekeeper program load 0 "$TMP/declined.bpf" >/dev/null
asks_and_is_declined 0
rutter gatekeeper program unload 0 >/dev/null
assert_ping c 203.0.113.5
router_stop
