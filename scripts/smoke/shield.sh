# Shared by scripts with a shield: a client at the front; at the back a Grantor, with the protected
# networks behind it. Sourced after lib.sh.
#
#   c 10.0.1.2, 2001:db8:1::2 ── v0 r v1 ── g 10.0.2.2, 2001:db8:2::2
#                                           203.0.113.0/24, 2001:db8:71::/48 are protected
#
# shellcheck shell=bash

need ping ethtool python3
[ "$(nproc)" -gt 1 ] || skip "one core"

shield_hosts() {
	host r
	station c v0 10.0.1.2/24 10.0.1.1 2001:db8:1::2/64 2001:db8:1::1
	station g v1 10.0.2.2/24 10.0.2.1 2001:db8:2::2/64 2001:db8:2::1
	on g ip link set eth0 mtu 1600 # room for the outer header
	on r ip link set v1 mtu 1600
	serves g
}

serves() { # NS: whatever comes for what is protected is for it
	on "$1" ip route add local 203.0.113.0/24 dev lo
	on "$1" ip -6 route add local 2001:db8:71::/48 dev lo
	on "$1" sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0
	background "discard-$1" ip netns exec "$P$1" python3 -c '
import socket
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
s.bind(("::", 9)); print("ready", flush=True)
while True: s.recv(9000)' # no ICMP errors
	is_ready "discard-$1"
}

# Front and back, and the protected prefixes; the argument gives more lines of [gatekeeper],
# standard input more sections. ENTRIES is the number of flows that the table may hold.
shield_config() { # [MORE LINES]
	printf 'workers = [0, 1]\n'
	port p0 v0 10.0.1.1/24 2001:db8:1::1/64
	port p1 v1 10.0.2.1/24 2001:db8:2::1/64 "mtu = 1600"
	shield_section '"p0"' '"p1"' "${1:-}"
}

shield_section() { # FRONT BACK [MORE LINES]
	cat <<-END
		[gatekeeper]
		front = [$1]
		back = [$2]
		entries = ${ENTRIES:-65536}
		${3:-}
		[[gatekeeper.protect]]
		prefix = "203.0.113.0/24"
		grantors = ["10.0.2.2"]
		[[gatekeeper.protect]]
		prefix = "2001:db8:71::/48"
		grantors = ["2001:db8:2::2"]
	END
}

# The Grantor in g, also at its second address 10.0.2.3, by rules that `grantor_rules` may change.
grantor_start() { # RULE …
	grantor_rules "$@"
	background grantor sh -c "exec ip netns exec ${P}g python3 '$SMOKE/grantor.py' answer eth0 inside 10.0.2.2 10.0.2.3 \
		2001:db8:2::2 --reread '$TMP/rules' >'$TMP/heard'"
	grantor_pid=$last_pid
	is_ready grantor
}

grantor_rules() { # RULE …
	printf '%s\n' "$@" >"$TMP/rules.new"
	mv "$TMP/rules.new" "$TMP/rules"
}

# Each Grantor can be reached.
grantors_found() {
	rutter gatekeeper show -j | json "len(x['grantors']) > 0 and not any(g['fault'] for g in x['grantors'])" | found True
}

odd() { # NS ARGUMENTS: odd.py there
	local name=$1
	shift
	on "$name" python3 "$SMOKE/odd.py" "$@"
}

# Puts packets into a tap of r whose program was killed: to the hardware address of the tap, or of
# another link. Prints how many of the five the kernel has forwarded.
put() { # TAP SRC DST [LINK]
	local before
	before=$(kernel_forwarded r)
	odd r put "$1" "$(mac_of r "${4:-$1}")" "$2" "$3" --count 5
	echo $(($(kernel_forwarded r) - before))
}

# From the client, by the router's front port.
client_sends() { # SRC DST ARGUMENTS OF odd.py
	odd c send eth0 "$(mac_of r p0)" "$@"
}

watch() { # NS …: what comes in there, with what odd.py sends inside
	local name
	for name in "$@"; do
		background "watch-$name" sh -c "exec ip netns exec $P$name python3 '$SMOKE/odd.py' watch eth0 >'$TMP/came-$name'"
		is_ready "watch-$name"
	done
}

came() { # HOW: so many packets came where we watch, wrapped or bare
	cat "$TMP"/came-* | grep -c "^$1 " || true
}

tells() { # FLOW=DECISION … [ARGUMENTS]: as from the Grantor, by IPv4
	on g python3 "$SMOKE/grantor.py" tell eth0 "$(mac_of r p1)" 10.0.2.2 10.0.2.1 "$@"
}

heard() { # REGEX: how many packets the Grantor saw, of such a line
	grep -Ec -- "$1" "$TMP/heard" || true
}

heard_so_many() { # COUNT REGEX
	[ "$(heard "$2")" -ge "$1" ]
}

# The number of flows in a state, among those that a filter matches.
flows() { # STATE [FILTER]
	rutter gatekeeper flows -n 0 -j state "$@" | wc -l
}

flows_are() { # COUNT STATE [FILTER]
	[ "$(flows "${@:2}")" = "$1" ]
}

decisions() { # NAME: so many decisions, or messages, had that fate
	rutter gatekeeper show -j | json "next(d['count'] for d in x['decisions'] if d['what'] == '$1')"
}

drops() { # REASON: of all nodes
	rutter show drops -j | json "sum(d['packets'] for d in x if d['reason'].split('.')[-1] == '$1')"
}
