# README's shield on one machine, with the configuration and the policy as they are printed there
# (the guide has the same): a page loads, and other traffic gets nothing.
. "$(dirname "$0")/lib.sh"
. "$SMOKE/shield.sh"

readme=$SMOKE/../../README.md
section='## A shield on one machine'
block() { # LANGUAGE: the first block of the section
	sed -n "/^$section\$/,/^## A lookup/p" "$readme" | sed -n "/^\`\`\`$1\$/,/^\`\`\`\$/p" | sed '1d;$d'
}
block toml >"$TMP/rutter.toml"
block lua >"$TMP/shield.lua"
lines=$(wc -l <"$TMP/rutter.toml")/$(wc -l <"$TMP/shield.lua")
assert_match "$lines" '^(1[0-9]|20)/([1-9]|10)$' "lines of configuration and policy"
for part in toml lua; do
	block=$(block "$part")
	case $(<"$SMOKE/../../docs/guide/one-box.md") in *"$block"*) ;; *) fail "the guide has another $part" ;; esac
done

host r
station c eth1 192.0.2.2/24 192.0.2.1 2001:db8:1::2/64 2001:db8:1::1
station g eth2 10.0.0.2/24 10.0.0.1 2001:db8:2::2/64 2001:db8:2::1
on c ip address add 192.0.2.3/24 dev eth0
serves g
background web ip netns exec "${P}g" python3 -c '
import http.server
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self): self.send_response(200); self.end_headers(); self.wfile.write(b"served" * 20000)
server = http.server.ThreadingHTTPServer(("", 80), Page); print("ready", flush=True); server.serve_forever()'
is_ready web

cd "$TMP"
router_start </dev/null
assert_ping c 192.0.2.1
assert_ping g 10.0.0.1
page=$(on c python3 -c 'import urllib.request
print(len(urllib.request.urlopen("http://203.0.113.80/", timeout=20).read()))')
assert_eq "$page" 120000 "the page's bytes"
assert_eq "$(flows program program 0 from 192.0.2.2/32)" 1 "flows granted"
assert_no_ping c 203.0.113.80 -I 192.0.2.3
assert_eq "$(flows program program 1 from 192.0.2.3/32)" 1 "flows declined"
assert_match "$(rutter grantor show)" '^policy +shield.lua$' "what decides"
rutter grantor policy load shield.lua
router_stop
