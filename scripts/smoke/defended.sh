# Shared by scripts with Gatekeepers, Grantors and BIRD between them. Each server is a namespace of
# its own; network N is 10.0.N.0/24 and 2001:db8:N::/64. Sourced after lib.sh.
#
#                     ┌─ 11 ─ r ─ 21 ─┐       ┌ 31 ─ n ─ 41 ┐
#   c ── 1 ── e: ECMP ┤  Gatekeepers  ├── m ──┤   Grantors  ├ s
#                     └─ 12 ─ q ─ 22 ─┘   │   └ 32 ─ o ─ 42 ┘ │
#                                         └──────── 51 ───────┘   the way back: it need not pass a Grantor
#
# A script may have one of either. 203.0.113.0/24 and 2001:db8:71::/48 are protected; s serves them.
# Clients are all of 10.9.0.0/16 and 2001:db8:9::/48.
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
	starving
	kill -KILL "${daemon_of[$1]}" "${bird_of[$1]}"
	wait "${daemon_of[$1]}" "${bird_of[$1]}" 2>/dev/null || true
}

end_well() { # NS …: their daemons, on SIGTERM
	local name
	for name in "$@"; do
		kill -TERM "${daemon_of[$name]}"
		wait_gone "${daemon_of[$name]}" 200 || fail "$name does not end on SIGTERM"
	done
}

# ----- one or two Gatekeepers

shield() { # GRANTORS4 GRANTORS6 [MORE LINES]: the section of a Gatekeeper
	cat <<-CONFIG
		[gatekeeper]
		front = ["p0"]
		back = ["p1"]
		entries = 65536
		${3:-}
		[[gatekeeper.protect]]
		prefix = "203.0.113.0/24"
		grantors = [$1]
		[[gatekeeper.protect]]
		prefix = "2001:db8:71::/48"
		grantors = [$2]
	CONFIG
}

two_gatekeepers() { # the wires from c to m, for Gatekeepers r and q
	host c e r q m
	wire 1 e w1 c eth0
	wire 11 e w11 r -v0
	wire 12 e w12 q -v0
	wire 21 r -v1 m w21 1600
	wire 22 q -v1 m w22 1600
	clients c 1 1
	on e ip route add 10.9.0.0/16 via 10.0.1.2
	on e ip -6 route add 2001:db8:9::/48 via 2001:db8:1::2
	forwards e
	forwards m
}

gatekeepers_start() { # GRANTORS4 GRANTORS6 NS …
	local name n
	for name in "${@:3}"; do
		case $name in r) n=1 ;; q) n=2 ;; esac
		{
			printf 'workers = [%s]\n' $((n - 1))
			port_in p0 v0 1$n 2
			port_in p1 v1 2$n 1 "mtu = 1600"
			shield "$1" "$2" "withdraw = true"
		} | daemon_start "$name"
		{
			kernel_routes
			neighbour 1$n 1 65001 "where source = RTS_INHERIT"
			neighbour 2$n 2 65002 "where source = RTS_BGP"
		} | bird_start "$name" "10.0.1$n.2" 6501$n
	done
}

provider_start() { # the BIRD of e: clients are behind it
	{
		kernel_routes
		printf 'protocol static own4 { ipv4; route 10.9.0.0/16 blackhole; }\n'
		printf 'protocol static own6 { ipv6; route 2001:db8:9::/48 blackhole; }\n'
		neighbour 11 2 65011 "where source = RTS_STATIC"
		neighbour 12 2 65012 "where source = RTS_STATIC"
	} | bird_start e 10.0.1.1 65001
}

equal_paths() { # COUNT: to what is protected, and back
	local ns prefix family
	for ns in e:203.0.113.0/24 e:2001:db8:71::/48 m:10.9.0.0/16 m:2001:db8:9::/48; do
		prefix=${ns#*:}
		case $prefix in *:*) family=-6 ;; *) family=-4 ;; esac
		[ "$(on "${ns%%:*}" ip $family -j route show "$prefix" proto bird | json \
			"sum(len(r.get('nexthops', [0])) for r in x)")" = "$1" ] || return 1
	done
}

# ----- one or two Grantors

grantor() { # NS NETWORK SERVER-NETWORK WORKER POLICY GATEKEEPERS [MORE LINES]
	{
		printf 'workers = [%s]\n' "$4"
		port_in p0 v0 "$2" 2 "mtu = 1600"
		port_in p1 v1 "$3" 1
		cat <<-CONFIG
			[grantor]
			gatekeepers = [$6]
			serves = ["203.0.113.0/24", "2001:db8:71::/48"]
			policy = "$5"
			${7:-}
			[[route]]
			prefix = "203.0.113.0/24"
			via = "10.0.$3.2"
			[[route]]
			prefix = "2001:db8:71::/48"
			via = "2001:db8:$3::2"
		CONFIG
	} | daemon_start "$1"
}

two_grantors() { # the wires from m to s, for Grantors n and o, which are asked at 10.255.0.N and 2001:db8:ff::N
	local at
	host n o s
	wire 31 m w31 n -v0 1600
	wire 32 m w32 o -v0 1600
	wire 41 n -v1 s w41
	wire 42 o -v1 s w42
	wire 51 m w51 s w51
	protected s
	on s ip route add default via 10.0.51.1
	on s ip -6 route add default via 2001:db8:51::1
	for at in n:1 o:2; do # this address is announced while the Grantor is there
		on "${at%:*}" ip address add "10.255.0.${at#*:}/32" dev lo
		on "${at%:*}" ip address add "2001:db8:ff::${at#*:}/128" dev lo
	done
}

grantors_start() { # POLICY GATEKEEPERS MORE-LINES NS …
	local name n
	for name in "${@:4}"; do
		case $name in n) n=1 ;; o) n=2 ;; esac
		grantor "$name" 3$n 4$n $((n - 1)) "$1" "$2" "$3"
		{
			kernel_routes
			printf 'protocol direct { ipv4; ipv6; interface "lo"; }\n'
			neighbour 3$n 1 65002 "$(connected lo)"
		} | bird_start "$name" "10.0.3$n.2" 6502$n
	done
}

# ----- what is so

has_way() { # NS PREFIX …: there is a route from BGP
	local prefix
	for prefix in "${@:2}"; do on "$1" ip route show "$prefix" proto bird | found . || on "$1" ip -6 route show "$prefix" proto bird | found .; done
}

grantors_of() { # NS COUNT: so many can be reached
	at "$1" gatekeeper show -j | json "sum(not g['fault'] for g in x['grantors']) == $2" | found True
}

granted_at() { # NS [FILTER]: flows; by a policy in Lua they are granted by program 0
	local state
	for state in "state granted" "program 0"; do
		# shellcheck disable=SC2086 # two words
		at "$1" gatekeeper flows -n 0 -j $state "${@:2}"
	done | wc -l
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

declare -A starved_of
starved_at() { # NS: `starved_ms` there
	case $(ps -o stat= -p "${daemon_of[$1]}" 2>/dev/null) in
		[TZ]* | "") echo "${starved_of[$1]:-0}" && return ;; # it gives no answer
	esac
	RUTTER_SOCKET=$TMP/$1.sock starved_ms
}

starving() { # from now on
	local name
	for name in "${!daemon_of[@]}"; do starved_of[$name]=$(starved_at "$name"); done
}

starved() { # MOST: since then, by all together, in ms; no more than MOST is allowed for
	local name now sum=0
	for name in "${!daemon_of[@]}"; do
		now=$(starved_at "$name")
		[ "$now" -lt "${starved_of[$name]:-0}" ] || now=$((now - ${starved_of[$name]:-0})) # else another process
		sum=$((sum + now))
	done
	echo $((sum < $1 ? sum : $1))
}

asking() { # NAME NS ARGUMENTS: flows that are asked until `asked`; each has had an answer
	ask "$@"
	is_ready "$1"
}

ask() { # as `asking`, but it waits for no answer
	rm -f "$TMP/$1.log" # of those before, which were ready
	background "$1" sh -c "exec ip netns exec $P$2 python3 '$SMOKE/pairs.py' ask ${*:3} >'$TMP/$1.out'"
	eval "$1_pid=$last_pid"
}

asked() { # NAME: ends them; how many there are, how many were never answered, the longest silence and first wait
	local pid=$1_pid
	kill -TERM "${!pid}"
	wait_gone "${!pid}" 50 || { fail "the flows of $1 do not end" >&2; } # its output is read
	cat "$TMP/$1.out"
}

both_ask() { # NUMBER: 40 new flows of each family, from the clients of that number
	asking four c 203.0.113.5 7 "10.9.$1.1" 40
	asking six c 2001:db8:71::5 7 "2001:db8:9:$1::1" 40
	starving
}

both_were_served() { # WHILE WHAT: no flow was without an answer for longer than two lost SYNs take
	local name flows never silence starved _
	starved=$(starved 3500)
	for name in four six; do
		asked $name | read -r flows never silence _
		echo "# $1: the longest silence of a flow of family $name: $silence ms; $starved ms are allowed for want of a core"
		assert_eq "$flows $never" "40 0" "flows of family $name, and those that were never answered"
		assert_at_most "$silence" $((3500 * PATIENCE + starved)) "ms without an answer while $1"
	done
}
