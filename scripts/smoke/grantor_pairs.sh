# Two Gatekeepers behind equal paths, and two Grantors whose policy is in Lua, BIRD between them all.
# One Gatekeeper dies: the other has its flows granted again within 3.5 s. One Grantor's process
# stops: granted flows stay granted, new ones ask the other Grantor, until it goes on. The policy of
# one Grantor loops for one destination: flows to the others are granted meanwhile.
. "$(dirname "$0")/lib.sh"
. "$SMOKE/defended.sh"

cat >"$TMP/good.lua" <<'END'
local policylib = require "gatekeeper/policylib"
local ffi = require "ffi"
local c = policylib.c
function decide(policy) return policylib.decision_granted(policy, 4096, 600, 540000, 3000) end
function lookup_policy(info, policy) return decide(policy) end
function lookup_frag_punish_policy(policy) return policylib.decision_declined(policy, 600) end
END
cat "$TMP/good.lua" - >"$TMP/slow.lua" <<'END'
local bytes = ffi.typeof "const uint8_t *"
function lookup_policy(info, policy)
  local last = ffi.cast(bytes, info.inner_l3_hdr)[info.inner_ip_ver == c.IPV4 and 19 or 39]
  while last == 0x42 do end -- to 203.0.113.66 or 2001:db8:71::42
  return decide(policy)
end
END

two_gatekeepers
two_grantors
grantors=('"10.255.0.1", "10.255.0.2"' '"2001:db8:ff::1", "2001:db8:ff::2"')
gatekeepers='"10.0.21.1/32", "10.0.22.1/32", "2001:db8:21::1/128", "2001:db8:22::1/128"'
policy=("$TMP/good.lua" "$gatekeepers" "failures = 1000")
grantors_start "${policy[@]}" n o
{
	kernel_routes
	printf 'protocol direct { ipv4; ipv6; }\n'
	for to in 21:65011 22:65012; do neighbour "${to%:*}" 1 "${to#*:}" "where bgp_path.last ~ [65021, 65022]"; done
	for to in 31:65021 32:65022; do
		neighbour "${to%:*}" 2 "${to#*:}" 'where source = RTS_DEVICE && (ifname = "w21" || ifname = "w22")'
	done
} | bird_start m 10.0.51.1 65002
provider_start
gatekeepers_start "${grantors[@]}" r q

all_there() { # COUNT: so many addresses of Grantors can be reached from either Gatekeeper
	grantors_of r "$1" && grantors_of q "$1"
}
wait_for 40 equal_paths 2
wait_for 40 all_there 4

declare -A asked_of decided_of
note() { # what either Grantor was asked, and has decided, until now
	local name
	for name in n o; do
		asked_of[$name]=$(counted_by $name requests) decided_of[$name]=$(counted_by $name "decisions sent")
	done
}
have_a_share() { # NS …: each has granted flows; a fair division of 80 leaves nobody with as few as 10
	local name
	for name in "$@"; do
		[ "$(granted_at "$name")" -ge 10 ] || fail "$name has $(granted_at "$name") granted flows of 80"
	done
}
decides() { # NS: about its share of 80 flows since `note`
	[ $(($(counted_by "$1" "decisions sent") - decided_of[$1])) -ge 10 ]
}
decide() { # WHEN NS …: each has decided
	local name
	for name in "${@:2}"; do
		(wait_for 5 decides "$name") || fail "$1 $name does not decide about its share"
	done
}
granted_from() { # NUMBER COUNT: so many flows of these clients, at both Gatekeepers together
	local name net sum=0
	for name in r q; do
		for net in "10.9.$1.0/24" "2001:db8:9:$1::/64"; do
			sum=$((sum + $(granted_at "$name" from "$net")))
		done
	done
	assert_eq "$sum" "$2" "granted flows from clients $1"
}
processes_of() { # NS
	at "$1" grantor policy show -j | json "sorted(p['pid'] for p in x['processes'])"
}
nobody_is_asked() {
	no_requests_at n
	no_requests_at o
}

# All take part.
note
both_ask 1
wait_for 10 all_granted_at 80 r q
have_a_share r q
decide "At first" n o

# A Gatekeeper dies.
wait_for 10 nobody_is_asked
note
dies r
wait_for 10 all_granted_at 80 q
sleep 0.5
both_were_served "one Gatekeeper dies"
decide "After a Gatekeeper's death" n o
gatekeepers_start "${grantors[@]}" r
wait_for 40 equal_paths 2
wait_for 40 all_there 4

# A Grantor's process stops: as nothing passes, BFD misses it.
both_ask 2
wait_for 10 granted_from 2 80
have_a_share r
wait_for 10 nobody_is_asked
note
processes=$(processes_of o)
starving
kill -STOP "${daemon_of[o]}"
wait_for 10 all_there 2
sleep 1
both_were_served "one Grantor is stopped"
assert_eq "$(counted_by n requests)" "${asked_of[n]}" "requests of flows that were granted"
both_ask 3
[ $(($(counted_by n requests) - asked_of[n])) -ge 80 ] || fail "not all new flows ask the one that is left"
kill -CONT "${daemon_of[o]}"
wait_for 40 all_there 4
sleep 0.5
both_were_served "it goes on"
note
both_ask 4
decide "After a Grantor's return" n o
asked four >/dev/null
asked six >/dev/null
assert_eq "$(processes_of o)" "$processes" "the policy's processes at the Grantor that was stopped"

# The policy of n loops for one destination. Its flows that ask n are not granted; those that ask o
# are, and so is every flow to another destination, while n stops one loop after another.
both_ask 5
at n grantor policy load "$TMP/slow.lua"
failed_at_n() { # questions about which the policy of n has said nothing
	at n grantor policy show -j | json "x['failed']"
}
loops() { # COUNT: n has stopped so many at least
	[ "$(failed_at_n)" -ge "$1" ]
}
ask slow4 c 203.0.113.66 7 10.9.6.1 12 --rate 2
ask slow6 c 2001:db8:71::42 7 2001:db8:9:6::1 12 --rate 2
wait_for 20 loops 10
note
starving
failed=$(failed_at_n) longest=0
new_flows() { # DESTINATION FROM
	on c python3 "$SMOKE/pairs.py" ask "$1" 7 "$2" 50 --rate 5 --for $((2 * PATIENCE)) 2>/dev/null
}
for i in 7 8 9; do
	new_flows 203.0.113.5 "10.9.$i.1" >"$TMP/new4" &
	new_flows 2001:db8:71::5 "2001:db8:9:$i::1" >"$TMP/new6"
	wait $!
	for family in 4 6; do
		read -r flows never _ first <"$TMP/new$family"
		assert_eq "$flows $never" "50 0" "new flows while a policy loops, and those that were never answered"
		[ "$first" -le "$longest" ] || longest=$first
	done
done
loops $((failed + 10)) || fail "the policy of n did not loop meanwhile"
echo "# a policy loops: the longest wait of a new flow for its first answer: $longest ms"
assert_at_most "$longest" $((1500 * PATIENCE + $(starved 1500))) "ms until the first answer while a policy loops"
decide "While a policy loops" n o
both_were_served "a policy loops"
slow=$(($(granted_at r to 203.0.113.66/32) + $(granted_at q to 203.0.113.66/32) +
	$(granted_at r to 2001:db8:71::42/128) + $(granted_at q to 2001:db8:71::42/128)))
case $slow in 0 | 24) fail "$slow of 24 flows to the slow destination are granted" ;; esac
assert_match "$(at n grantor show)" 'slow.lua: it took too long and was stopped: slow.lua:[0-9]' "the cause at n"
at n grantor policy rollback
for name in slow4 slow6; do
	is_ready $name
	asked $name | read -r flows never _
	assert_eq "$flows $never" "12 0" "flows to the slow destination after the rollback, and those never answered"
done
end_well r q n o
