# Shared by scripts with a routing daemon: a peer that announces prefixes, BIRD on the router.
# Sourced after lib.sh.
#
# shellcheck shell=bash

peer_pid=
router_bird_pid=

# BIRD in namespace NS, at 10.0.2.2 and 2001:db8:2::2, announces N4 IPv4 prefixes
# from 100.64.0.0/24 on and N6 IPv6 prefixes from 2001:db8:8000::/48 on.
peer_announces() { # NS N4 N6
	{
		cat <<-END
			router id 10.0.2.2;
			protocol device {}
			ipv4 table t4; ipv6 table t6;
			protocol static lots4 { ipv4 { table t4; };
			include "$TMP/lots4.conf";
			}
			protocol static lots6 { ipv6 { table t6; };
			include "$TMP/lots6.conf";
			}
			template bgp to_router { local as 65002; hold time 9; connect retry time 1; error wait time 1, 2;
				connect delay time 1; }
			protocol bgp r4 from to_router { neighbor 10.0.2.1 as 65001; source address 10.0.2.2;
				ipv4 { table t4; import none; export all; next hop self; }; }
			protocol bgp r6 from to_router { neighbor 2001:db8:2::1 as 65001; source address 2001:db8:2::2;
				ipv6 { table t6; import none; export all; next hop self; }; }
		END
	} >"$TMP/peer.conf"
	awk -v n="$2" 'BEGIN { for (i = 0; i < n; i++) printf "route 100.%d.%d.0/24 blackhole;\n", 64 + int(i / 256), i % 256 }' >"$TMP/lots4.conf"
	awk -v n="$3" 'BEGIN { for (i = 0; i < n; i++) printf "route 2001:db8:%x::/48 blackhole;\n", 32768 + i }' >"$TMP/lots6.conf"
	background peer ip netns exec "$P$1" bird -f -c "$TMP/peer.conf" -s "$TMP/$1.ctl" -P "$TMP/peer.pid"
	peer_pid=$last_pid
}

# BIRD on the router: BGP with the peer, routes into the kernel's tables: main, or those of a VRF device.
bird_on_router() { # [VRF TABLE]
	local vrf=${1:+vrf \"$1\";} table=${2:+kernel table $2;}
	cat >"$TMP/router-bird.conf" <<-END
		router id 10.0.2.1;
		protocol device { scan time 2; }
		protocol direct { $vrf ipv4; ipv6; }
		protocol kernel { $vrf $table ipv4 { export where source = RTS_BGP; import none; }; }
		protocol kernel { $vrf $table ipv6 { export where source = RTS_BGP; import none; }; }
		template bgp to_peer { $vrf local as 65001; hold time 9; connect retry time 1; error wait time 1, 2;
			connect delay time 1; }
		protocol bgp p4 from to_peer { neighbor 10.0.2.2 as 65002; ipv4 { import all; export none; }; }
		protocol bgp p6 from to_peer { neighbor 2001:db8:2::2 as 65002; ipv6 { import all; export none; }; }
	END
	background bird ip netns exec "${P}r" bird -f -c "$TMP/router-bird.conf" -s "$TMP/r.ctl" -P "$TMP/bird.pid"
	router_bird_pid=$last_pid
}

# BIRD on the router has the peer's routes again, and no stale route is left.
bird_is_ready() {
	on r birdc -s "$TMP/r.ctl" show protocols | grep -c '^p[46] .*Established' | found 2
}

# True when the data plane has this many of the peer's routes.
has_routes() { # N4 N6
	rutter show routes -j >"$TMP/routes.json" || [ $? = 1 ]
	json "(sum(r['prefix'].startswith('100.') for r in x) == $1) and (sum(r['prefix'].startswith('2001:db8:8') for r in x) == $2)" \
		<"$TMP/routes.json" | found True
}

# The data plane has exactly the kernel's routes with a gateway.
same_as_kernel() {
	local family
	rutter show routes -j >"$TMP/routes.json" || [ $? = 1 ]
	for family in 4 6; do
		on r ip -$family -j route show table main >"$TMP/kernel$family.json"
	done
	python3 - "$TMP" <<-'END' || fail "the data plane differs from the kernel's table"
		import ipaddress, json, sys

		def prefix(text):
		    family = {"default": "0.0.0.0/0"}
		    return str(ipaddress.ip_network(family.get(text, text)))

		tmp, best, ours = sys.argv[1], {}, set()
		for family in "46":
		    for route in json.load(open(f"{tmp}/kernel{family}.json")):
		        hops = route.get("nexthops", [route])
		        gateways = [hop.get("gateway") or hop.get("via", {}).get("host") for hop in hops]
		        key, metric = prefix(route["dst"]), route.get("metric", 0)
		        if key not in best or metric < best[key][0]:
		            best[key] = metric, tuple(sorted(gateways)) if all(gateways) else ()
		kernel = {(key, gateways) for key, (_, gateways) in best.items() if gateways}
		for route in json.load(open(f"{tmp}/routes.json")):
		    gateways = [hop["gateway"] for hop in route["via"]]
		    if gateways and all(gateways) and route["vrf"] == "main" and route["best"]:
		        ours.add((prefix(route["prefix"]), tuple(sorted(gateways))))
		for name, extra in ("missing", kernel - ours), ("too many", ours - kernel):
		    if extra:
		        print(f"{name}: {len(extra)}, such as {sorted(extra)[:5]}")
		sys.exit(kernel != ours)
	END
}
