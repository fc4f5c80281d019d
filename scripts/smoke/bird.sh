# BIRD, unmodified: BGP over the tap, routes in and out, both families.
. "$(dirname "$0")/lib.sh"
need ping bird birdc ethtool python3
. "$SMOKE/routing.sh"

two_hosts
two_ports | router_start
peer_announces b 2000 200
bird_on_router

wait_for 30 has_routes 2000 200
on b ip route add local 100.64.0.0/10 dev lo
on b ip -6 route add local 2001:db8:8000::/33 dev lo
assert_ping a 100.64.3.1
assert_ping a 2001:db8:8003::1
wait_for 5 same_as_kernel

# No packet is lost to updates: 2,000 routes leave and come back while a pings b.
pinging a 10.0.2.2 0.005
on b birdc -s "$TMP/b.ctl" disable lots4 >/dev/null
wait_for 15 has_routes 0 200
on b birdc -s "$TMP/b.ctl" enable lots4 >/dev/null
wait_for 15 has_routes 2000 200
pinged "routes leave and come back"

# The peer dies: its routes go.
kill -KILL "$peer_pid"
on b ip link set eth0 down
wait_for 30 has_routes 0 0
assert_told a 100.64.3.1 "From 10.0.1.1 .*Unreachable" "the routes are gone"
