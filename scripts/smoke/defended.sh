# Shared by scripts with Gatekeepers, Grantors and BIRD between them. Each server is a namespace of
# its own; network N is 10.0.N.0/24 and 2001:db8:N::/64. Sourced after lib.sh.
#
# 203.0.113.0/24 and 2001:db8:71::/48 are protected. Clients are all of 10.9.0.0/16 and 2001:db8:9::/48.
#
# shellcheck shell=bash

need bird birdc python3 ethtool
[ "$(nproc)" -gt 1 ] || skip "one core"

wire() { # NETWORK NS IF NS IF [MTU]: the first has host 1 there, the second host 2; "-": Rutter has the address
	link "$2" "${3#-}" "$4" "${5#-}" "${6:-}"
	address "$2" "$3" "$1" 1
	address "$4" "$5" "$1" 2
}

address() { # NS IF NETWORK HOST
	[ "${2#-}" = "$2" ] || return 0
	on "$1" ip address add "10.0.$3.$4/24" dev "$2"
	on "$1" ip address add "2001:db8:$3::$4/64" dev "$2" nodad
}

forwards() { # NS: a router of the kernel's
	on "$1" sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 net.ipv4.conf.all.rp_filter=0 \
		net.ipv4.conf.default.rp_filter=0
}

port_in() { # NAME IF NETWORK HOST [MORE LINES]
	port "$1" "$2" "10.0.$3.$4/24" "2001:db8:$3::$4/64" "${5:-}"
}

at() { # NS COMMAND …: as a client of the Rutter there
	RUTTER_SOCKET=$TMP/$1.sock "$RUTTER" "${@:2}"
}

answers_at() { # NS
	at "$1" show system >/dev/null 2>&1
}

declare -A daemon_of bird_of
daemon_start() { # NS [CONFIGURATION on standard input]
	[ ! -p /dev/stdin ] || cat >"$TMP/$1.toml"
	RUTTER_SOCKET=$TMP/$1.sock background "$1" ip netns exec "$P$1" "$RUTTER" run --config "$TMP/$1.toml"
	daemon_of[$1]=$last_pid
	wait_for 30 answers_at "$1"
}

# BIRD, with BFD to all of its neighbours: a server that is gone is missed within a second.
bird_start() { # NS ID ASN [MORE LINES on standard input]
	[ ! -p /dev/stdin ] || {
		cat <<-OPENING
			router id $2;
			protocol device { scan time 1; }
			protocol bfd { interface "*" { interval 200 ms; multiplier 5; }; }
			template bgp peer { local as $3; bfd on; hold time 9; connect retry time 1; error wait time 1, 2;
				connect delay time 1; }
		OPENING
		cat
	} >"$TMP/$1.bird"
	background "bird-$1" ip netns exec "$P$1" bird -f -c "$TMP/$1.bird" -s "$TMP/$1.ctl" -P "$TMP/$1.pid"
	bird_of[$1]=$last_pid
}

# A BGP session to HOST of the network, whose AS is ASN; the filter selects the exports.
neighbour() { # NETWORK HOST ASN EXPORT
	printf 'protocol bgp four%s from peer { neighbor 10.0.%s.%s as %s; ipv4 { import all; next hop self; export %s; }; }\n' \
		"$1" "$1" "$2" "$3" "$4"
	printf 'protocol bgp six%s from peer { neighbor 2001:db8:%s::%s as %s; ipv6 { import all; next hop self; export %s; }; }\n' \
		"$1" "$1" "$2" "$3" "$4"
}

# An export: the network of that interface. (Never the neighbour's own network: for IPv6 the kernel
# would prefer that route to the connected one.)
connected() { # IF
	printf 'where source = RTS_DEVICE && ifname = "%s"' "$1"
}

# Routes from BGP go to the kernel, equal ones together; the protections are learnt from there.
kernel_routes() {
	local family
	for family in 4 6; do
		cat <<-KERNEL
			protocol kernel k$family { learn; merge paths on; scan time 1; ipv$family {
				import filter { if krt_source = 199 && krt_metric = 8 then { preference = 200; accept; } reject; };
				export where source = RTS_BGP; }; }
		KERNEL
	done
}

dies() { # NS: all of the server, at once
	kill -KILL "${daemon_of[$1]}" "${bird_of[$1]}"
	wait "${daemon_of[$1]}" "${bird_of[$1]}" 2>/dev/null || true
}

has_way() { # NS PREFIX …: there is a route from BGP
	local prefix
	for prefix in "${@:2}"; do on "$1" ip route show "$prefix" proto bird | found . || on "$1" ip -6 route show "$prefix" proto bird | found .; done
}

grantors_of() { # NS COUNT: so many can be reached
	at "$1" gatekeeper show -j | json "sum(not g['fault'] for g in x['grantors']) == $2" | found True
}

granted_at() { # NS: flows
	at "$1" gatekeeper flows -n 0 -j state granted | wc -l
}

# An answer may arrive before the decision about its flow: scripts that count grants or requests
# wait for the decisions.
all_granted_at() { # COUNT NS …: so many flows of all these together
	local sum=0 ns
	for ns in "${@:2}"; do sum=$((sum + $(granted_at "$ns"))); done
	assert_eq "$sum" "$1" "granted flows at ${*:2}"
}

no_requests_at() { # NS: a Grantor is asked nothing for a while
	local before
	before=$(counted_by "$1" requests)
	sleep 0.3
	assert_eq "$(counted_by "$1" requests)" "$before" "requests at $1 for the last 0.3 s"
}

counted_by() { # NS WHAT: of a Grantor
	at "$1" grantor show -j | json "next(c['count'] for c in x['counts'] if c['what'] == '$2')"
}

# The protected servers: they have all of the addresses, and answer.
protected() { # NS
	on "$1" ip route add local 203.0.113.0/24 dev lo
	on "$1" ip -6 route add local 2001:db8:71::/48 dev lo
	on "$1" sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0
	background "answer-$1" ip netns exec "$P$1" python3 "$SMOKE/pairs.py" answer 7
	is_ready "answer-$1"
}

clients() { # NS NETWORK GATEWAY: it has their addresses, and a way to what is protected
	on "$1" ip route add local 10.9.0.0/16 dev lo
	on "$1" ip -6 route add local 2001:db8:9::/48 dev lo
	on "$1" ip route add default via "10.0.$2.$3"
	on "$1" ip -6 route add default via "2001:db8:$2::$3"
}

asking() { # NAME NS ARGUMENTS: flows that are asked until `asked`
	background "$1" sh -c "exec ip netns exec $P$2 python3 '$SMOKE/pairs.py' ask ${*:3} >'$TMP/$1.out'"
	eval "$1_pid=$last_pid"
	is_ready "$1"
}

asked() { # NAME: ends them; how many there are, how many were never answered, the longest silence
	local pid=$1_pid
	kill -TERM "${!pid}"
	wait_gone "${!pid}" 50
	cat "$TMP/$1.out"
}
