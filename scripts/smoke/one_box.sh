# A shield on one machine: it asks its own policy. A page loads during a flood from forged sources;
# declined flows get nothing; answers are routed; two interfaces, then two VLANs of one.
. "$(dirname "$0")/lib.sh"
. "$SMOKE/shield.sh"

host r
station c v0 10.0.1.2/24 10.0.1.1 2001:db8:1::2/64 2001:db8:1::1
station g v1 10.0.2.2/24 10.0.2.1 2001:db8:2::2/64 2001:db8:2::1
serves g

protect() { # PREFIX NEXT-HOP
	cat <<-END
		[[route]]
		prefix = "$1"
		via = ["$2"]
		[[gatekeeper.protect]]
		prefix = "$1"
	END
}

roles() { # FRONT BACK POLICY
	cat <<-END
		role = ["gatekeeper", "grantor"]
		workers = [0, 1]
		[gatekeeper]
		front = ["$1"]
		back = ["$2"]
		requests = 1000
		entries = 65536
		[grantor]
		policy = "$3"
	END
}

two_interfaces() { # POLICY
	roles p0 p1 "$1"
	port p0 v0 10.0.1.1/24 2001:db8:1::1/64
	port p1 v1 10.0.2.1/24 2001:db8:2::1/64
	protect 203.0.113.0/24 10.0.2.2
	protect 2001:db8:71::/48 2001:db8:2::2
}

background web ip netns exec "${P}g" python3 -c '
import http.server, socket
class Server(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self): self.send_response(200); self.end_headers(); self.wfile.write(b"served" * 20000)
server = Server(("::", 80), Page); print("ready", flush=True); server.serve_forever()'
is_ready web
page() { # HOST [FROM]
	on c python3 -c 'import http.client, sys
page = http.client.HTTPConnection(sys.argv[1], timeout=20, source_address=(sys.argv[2], 0) if sys.argv[2] else None)
page.request("GET", "/")
print(len(page.getresponse().read()))' "$1" "${2:-}"
}
counted() { # PATH IN show
	rutter gatekeeper show -j | json "x$1"
}
asked() { # COUNTER OF THE GRANTOR
	rutter grantor show -j | json "next(c['count'] for c in x['counts'] if c['what'] == '$1')"
}

# Every flow is granted.
two_interfaces "grant 4096 300" | router_start
assert_ping c 203.0.113.5
assert_ping c 2001:db8:71::5
for host in 10.0.1.2 10.0.2.2 2001:db8:1::2 2001:db8:2::2; do wait_for 5 known $host; done
forwarded=$(kernel_forwarded r)
assert_eq "$(page 203.0.113.80)" 120000 "the page's bytes"
assert_eq "$(page "[2001:db8:71::80]")" 120000 "the page's bytes by IPv6"
assert_eq "$(flows granted from 10.0.1.2/32)" 2 "flows granted"
[ "$(counted "['verdicts']['granted']")" -gt 50 ] || fail "the pages' packets were not granted ones"
assert_match "$(rutter gatekeeper protect)" "203.0.113.0/24 +protect +this machine" "who decides"
assert_match "$(rutter gatekeeper show)" "1,000 decisions here" "how many decisions"
assert_match "$(rutter show capacity)" "requests a second +[0-9,]+ +1,000 .*gatekeeper.requests" "what it withstands"
assert_match "$(rutter doctor 2>&1)" "the policy of \[grantor\] decides for 2 protections, 1000 requests a second" "what doctor says"

# From inside out: routed, without a question.
before=$(asked requests)
assert_ping g 10.0.1.2 -I 203.0.113.5 # its answers are of a flow that was granted above
assert_eq "$(asked requests)" "$before" "requests after answers"

# A flood from forged sources has more requests than may be asked; a granted client and a new one
# are served.
floods() { [ "$(drops full)" -gt 0 ] || [ "$(counted "['requests']['waiting']")" -gt 0 ]; }
background flood ip netns exec "${P}c" python3 "$SMOKE/odd.py" send eth0 "$(mac_of r p0)" 10.9.0.1 203.0.113.80 \
	--count 150000 --sources 150000 --rate 5000
wait_for 20 floods # its frames are made before the first is sent
assert_eq "$(page 203.0.113.80)" 120000 "the page's bytes while it floods"
assert_eq "$(kernel_forwarded r)" "$forwarded" "packets that the kernel has forwarded"
on c ip address add 10.0.1.67/24 dev eth0
# A source that asks again after a second comes before all that ask once.
wait_for 20 on c ping -n -q -c 1 -W 2 -I 10.0.1.67 203.0.113.5
kill -0 "$last_pid" || fail "the flood was over"
kill -TERM "$last_pid"
router_stop

# Every flow is declined.
two_interfaces "decline 600" | router_start
for way in "203.0.113.5" "2001:db8:71::5"; do assert_no_ping c "$way"; done
assert_eq "$(flows declined from 10.0.1.2/32)" 1 "flows declined"
assert_eq "$(flows declined from 2001:db8:1::2/128)" 1 "flows declined by IPv6"
[ "$(drops denied)" -ge 2 ] || fail "requests that were denied: $(drops denied)"
# In shadow mode: counted, and forwarded.
rutter gatekeeper shadow 203.0.113.0/24 on
assert_ping c 203.0.113.5
assert_no_ping c 2001:db8:71::5
rutter gatekeeper shadow 203.0.113.0/24 off
assert_no_ping c 203.0.113.5
router_stop

# A policy in Lua, that of the example: the program `web` examines each packet of a client that loads
# pages. A client whose address no packet from the Internet has is declined.
on c ip address add 192.0.2.7/32 dev eth0
{
	two_interfaces "$SMOKE/../../examples/policies/web.lua"
	printf '[[route]]\nprefix = "192.0.2.7/32"\nvia = ["10.0.1.2"]\n'
} | router_start
assert_eq "$(page 203.0.113.80 192.0.2.7)" 120000 "the page's bytes through the program web"
assert_eq "$(page "[2001:db8:71::80]")" 120000 "the page's bytes through the program web, by IPv6"
web() { flows program program 3; }
assert_eq "$(web)" 2 "flows of the program web"
[ "$(counted "['verdicts']['granted']")" -gt 50 ] || fail "the pages' packets did not pass the program web"
assert_no_ping c 203.0.113.5 -I 10.0.1.2
assert_eq "$(web)" 2 "flows of the program web, after one that was declined"
router_stop

# Two VLANs of one port.
on c ip link set eth0 down
on g ip link set eth0 down
host hub
link hub eth0 r v2 1700
vlan() { # NS TAG NET
	tagged hub eth0 "t$2" "$2"
	on hub ip link set "t$2" netns "$P$1"
	on "$1" ip link set "t$2" up
	on "$1" ip address add "10.0.$3.2/24" dev "t$2"
	on "$1" ip route replace default via "10.0.$3.1"
}
vlan c 10 3
vlan g 20 4
{
	roles p2.10 p2.20 "grant 4096 300"
	cat <<-END
		[ports.p2]
		device = "packet:v2"
		[ports.p2.vlan.10]
		addresses = ["10.0.3.1/24"]
		[ports.p2.vlan.20]
		addresses = ["10.0.4.1/24"]
	END
	protect 203.0.113.0/24 10.0.4.2
} | router_start
assert_ping c 203.0.113.5
assert_eq "$(page 203.0.113.80)" 120000 "the page's bytes over VLANs"
assert_ping g 10.0.3.2 -I 203.0.113.5
router_stop
