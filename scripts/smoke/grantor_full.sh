# More requests come to a Grantor than its policy decides: those of the lowest priorities go, the log
# says so, and the others are decided.
. "$(dirname "$0")/lib.sh"
need ping ethtool python3

readonly ROOM=64    # packets that may wait
readonly FLOOD=300  # fewer than a port holds
readonly PATIENT=20 # fewer than those of the flood that the policy does not have yet

cat >"$TMP/all.lua" <<'END'
local policylib = require "gatekeeper/policylib"
function lookup_policy(info, policy) return policylib.decision_granted(policy, 1024, 300, 240000, 3000) end
function lookup_frag_punish_policy(policy) return policylib.decision_declined(policy, 600) end
END

two_hosts
{
	printf 'workers = [0]\n'
	two_ports
	cat <<-END
		[grantor]
		gatekeepers = ["10.0.1.0/24"]
		serves = ["10.0.2.0/24"]
		policy = "$TMP/all.lua"
		waiting = $ROOM
		asked = $((ROOM / 2))
		batch_ms = 10000
		limit_ms = 60000
	END
} | router_start
assert_ping a 10.0.2.2
mac=$(mac_of r p0)

asks() { # NAME ARGUMENTS: new flows, all at once
	background "$1" ip netns exec "${P}a" python3 "$SMOKE/asks.py" once eth0 "$mac" 10.0.1.1 10.0.2.2 1000 --at-once "${@:2}"
}
counted() { # WHAT
	rutter grantor show -j | json "next(c['count'] for c in x['counts'] if c['what'] == '$1')"
}
asked() { # COUNT: so many requests have come
	[ "$(counted requests)" = "$1" ]
}
sheds() { # COUNT
	[ "$(counted 'no room to wait')" = "$1" ]
}
warned() { # HIGHEST PRIORITY
	grep "WARN.*grantor: [0-9]* requests found no room to wait: the lowest priorities went first, none above $1" "$TMP/rutter.log"
}

# The policy decides nothing for a while: half of those that wait are with it.
policy=$(rutter grantor policy show -j | json "' '.join(str(p['pid']) for p in x['processes'])")
# shellcheck disable=SC2086 # several
kill -STOP $policy
asks flood --count $FLOOD --wait 0
wait_for 10 asked $FLOOD
wait_for 5 sheds $((FLOOD - ROOM))
wait_for 5 warned 41

# More patient ones take the places of others; then all that wait are decided.
asks patient --count $PATIENT --priority 44 --wait $((20 * PATIENCE))
wait_for 10 asked $((FLOOD + PATIENT))
wait_for 5 sheds $((FLOOD + PATIENT - ROOM))
# shellcheck disable=SC2086
kill -CONT $policy
wait "$last_pid"
assert_eq "$(json "x['granted'], x['sum']" <"$TMP/patient.log")" "($PATIENT, $PATIENT)" "patient requests granted"
all_decided() { [ "$(counted asked)" = $ROOM ] && [ "$(counted 'decisions sent')" = $ROOM ]; }
wait_for 10 all_decided
assert_eq "$(counted 'no room to wait')" $((FLOOD + PATIENT - ROOM)) "requests that were shed"
assert_eq "$(rutter show capacity -j | json "next(c['refused'] for c in x if c['what'] == 'packets that wait for a verdict')")" \
	$((FLOOD + PATIENT - ROOM)) "requests shed, as the capacity shows them"
assert_eq "$(warned 41 | wc -l)" 1 "lines about it, in a minute"
router_stop
