# BIRD in a VRF that is a device: BGP over the taps below it, routes into its tables.
. "$(dirname "$0")/lib.sh"
need ping bird birdc ethtool
. "$SMOKE/routing.sh"

two_hosts
needs_vrf_devices
config() {
	two_ports 'vrf = "blue"'
	printf '%s\n' '[vrf.blue]' 'table = 100'
}
config | router_start
peer_announces b 500 50
bird_on_router blue 100
wait_for 30 has_routes 500 50
on b ip route add local 100.64.0.0/10 dev lo
on b ip -6 route add local 2001:db8:8000::/33 dev lo
assert_ping a 100.64.1.1
assert_ping a 2001:db8:8003::1
assert_eq "$(json 'sorted({r["vrf"] for r in x if r["prefix"].startswith("100.")})' <"$TMP/routes.json")" "['blue']" "the routes' VRF"

# Rutter is killed: the device, its routes and BGP's session stay.
router_kill
config | router_start
wait_for 5 has_routes 500 50
assert_ping a 100.64.1.1

# The device is deleted with its routes, and is created again: BIRD's routes too, once BIRD is back.
on r ip link del blue
wait_for 60 has_routes 500 50
wait_for 10 assert_ping a 100.64.1.1
