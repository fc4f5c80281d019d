# Shared by scripts with a pair of routers: r and q beside each other in networks of hosts, and a
# third router whose bridges are those networks, because some kernels have no bridges. Sourced after
# lib.sh.
#
# shellcheck shell=bash

host r q sw
on r sh -c 'ip link add name x type veth peer name y && ip link add name try0 link x type macvlan' 2>/dev/null ||
	skip "the kernel has no macvlans"
on r ip link del x
wires=0
# Not on the core of r and q, which is the last: three workers on one core would be late for VRRP.
[ "$(nproc)" = 1 ] || echo 'workers = [0]' >"$TMP/sw.toml"

shared() { # NAME NS IF [NS IF …]: a network, and the interfaces that are in it
	local name=$1 ports=()
	shift
	while [ $# -gt 0 ]; do
		link "$1" "$2" sw "w$wires"
		printf '[ports.w%d]\ndevice = "%s"\n' $wires "$(device $wires w$wires)" >>"$TMP/sw.toml"
		ports+=("\"w$wires\"")
		wires=$((wires + 1))
		shift 2
	done
	printf '[bridge.%s]\nports = [%s]\n' "$name" "$(IFS=,; echo "${ports[*]}")" >>"$TMP/sw.toml"
}

switch_start() {
	RUTTER_SOCKET=$TMP/sw.sock background sw ip netns exec "${P}sw" "$RUTTER" run --config "$TMP/sw.toml"
}

on_q() { RUTTER_SOCKET=$TMP/q.sock "$@"; }
q_ready() { on_q rutter show system; }
q_start() { # CONFIGURATION on standard input
	cat >"$TMP/q.toml"
	RUTTER_SOCKET=$TMP/q.sock background q ip netns exec "${P}q" "$RUTTER" run --config "$TMP/q.toml"
	wait_for 30 q_ready
}

# keepalived with macvlans (`use_vmac`), unmodified. A master that is not heard for 1.8 s is gone: a busy
# machine is not so late.
vrrp_instance() { # PRIORITY NAME INTERFACE ID ADDRESSES
	cat <<-END
		vrrp_instance $2 {
			state BACKUP
			interface $3
			use_vmac vr.$2
			virtual_router_id $4
			priority $1
			advert_int 0.5
			virtual_ipaddress {
				$5
			}
		}
	END
}

keepalived_on() { # NS [INSTANCES on standard input]
	{
		echo "global_defs { vrrp_version 3 }"
		cat
	} >"$TMP/keepalived.$1"
	background "keepalived-$1" ip netns exec "$P$1" keepalived -n -l -P -f "$TMP/keepalived.$1" \
		-p "$TMP/keepalived.$1.pid" -r "$TMP/vrrp.$1.pid"
}

# The data plane forwards, not the kernel: no ping is lost, and few are handed up. Where a busy machine had
# keepalived elect another router meanwhile, it is asked again.
forwards_all() { # NS ADDR MOST: of 200; `punted` counts
	local i before elections
	for i in 1 2 3; do
		elections=$(elections) before=$(punted)
		! (assert_no_loss "$1" "$2" 200 && assert_at_most $(($(punted) - before)) "$3" "packets of 200 that the kernel was given") ||
			return 0
		[ "$(elections)" != "$elections" ] || break
	done
	fail "not all packets from $1 to $2 are forwarded by the data plane"
}

elections() { # so far
	cat "$TMP"/keepalived-*.log | grep -c Entering || true
}

has_address() { # NS IF ADDRESS
	on "$1" ip -br address show dev "$2" | found "$3"
}
has_not() { # NS IF ADDRESS
	! has_address "$@"
}
