# VRRP by FRR's unmodified vrrpd, with macvlans that the administrator makes: a pair of routers with
# one gateway for the hosts on both sides, which fails over and back.
. "$(dirname "$0")/lib.sh"
need ping ethtool python3
[ -x /usr/lib/frr/vrrpd ] || skip "FRR is not installed"
[ -z "${RUTTER_SMOKE_USERNS:-}" ] || skip "FRR changes to its own user, which a user namespace does not have"
. "$SMOKE/pair.sh"
host a b

#   a 10.0.1.2 ── lan ─┬─ v0 r v1 ─┬─ up ── b 10.0.2.2        the gateways: .254
#                      └─ v0 q v1 ─┘
shared lan r v0 q v0 a eth0
shared up r v1 q v1 b eth0
switch_start
on a ip address add 10.0.1.2/24 dev eth0
on a ip route add default via 10.0.1.254
on b ip address add 10.0.2.2/24 dev eth0
on b ip route add default via 10.0.2.254
chmod 755 "$TMP"

# The requirements of FRR's manual: a macvlan with the virtual router's hardware address and its
# addresses. vrrpd takes it down and up (`protodown`).
frr_on() { # NS PRIORITY
	local n
	install -d -o frr -g frr "$TMP/frr.$1"
	for n in 0 1; do
		on "$1" sysctl -qw "net.ipv4.conf.p$n.arp_ignore=1" # else it answers for the macvlan, as itself
		on "$1" ip link add "vrrp4-$n" link p$n type macvlan mode bridge
		on "$1" ip link set "vrrp4-$n" address "00:00:5e:00:01:3$((n + 3))"
		on "$1" ip address add "10.0.$((n + 1)).254/24" dev "vrrp4-$n"
		on "$1" ip link set "vrrp4-$n" up
		printf 'interface p%d\n vrrp %d version 3\n vrrp %d priority %d\n' $n $((n + 51)) $((n + 51)) "$2"
		printf ' vrrp %d advertisement-interval 500\n vrrp %d ip 10.0.%d.254\n' $((n + 51)) $((n + 51)) $((n + 1))
	done >"$TMP/vrrpd.$1.conf"
	: >"$TMP/zebra.$1.conf"
	chown frr: "$TMP/vrrpd.$1.conf" "$TMP/zebra.$1.conf"
	background "zebra-$1" ip netns exec "$P$1" /usr/lib/frr/zebra -f "$TMP/zebra.$1.conf" \
		-z "$TMP/frr.$1/zserv" -i "$TMP/frr.$1/zebra.pid" --vty_socket "$TMP/frr.$1"
	wait_for 20 test -S "$TMP/frr.$1/zserv"
	background "vrrpd-$1" ip netns exec "$P$1" /usr/lib/frr/vrrpd -f "$TMP/vrrpd.$1.conf" \
		-z "$TMP/frr.$1/zserv" -i "$TMP/frr.$1/vrrpd.pid" --vty_socket "$TMP/frr.$1"
}

{
	port p0 v0 10.0.1.7/24 ""
	port p1 v1 10.0.2.7/24 ""
} | q_start
{
	port p0 v0 10.0.1.1/24 ""
	port p1 v1 10.0.2.1/24 ""
} | router_start
frr_on r 150
frr_on q 100

# The macvlan of the router that does not have the gateway has no carrier.
is_master() { on "$1" ip -br link show dev vrrp4-0 | found " UP "; }
is_backup() { ! is_master "$1"; }
wait_for 30 is_master r
wait_for 20 is_backup q
wait_for 20 reaches a 10.0.2.2
assert_match "$(on a ip neighbour show 10.0.1.254)" "00:00:5e:00:01:33" "the gateway's hardware address"
assert_ping a 10.0.1.254
punted() { rutter show interfaces -j | json "next(i['punted'] for i in x if i['name'] == 'p0')"; }
before=$(punted)
assert_no_loss a 10.0.2.2 200
assert_at_most $(($(punted) - before)) 60 "packets of 200 that the kernel was given"

router_kill
wait_for 20 is_master q
wait_for 20 reaches a 10.0.2.2
router_start
wait_for 20 is_backup q
wait_for 20 is_master r
wait_for 20 reaches a 10.0.2.2
