# Front and back, as VLANs of one port, in both families: which hosts reach which. A packet from the
# front passes only by a protection or a bypass; nothing goes from a side to the same side; from the
# back to the front it is routed.
. "$(dirname "$0")/lib.sh"
. "$SMOKE/shield.sh"

#   c  10.0.1.2 (VLAN 10) ─┐               ┌─ (VLAN 20) g 10.0.2.2: the Grantor, and a router to
#   d  10.0.3.2 (VLAN 11) ─┴─ front  back ─┴─ (VLAN 21) e 10.0.4.2
#                        one port of r
host r hub
link hub eth0 r v0 1700
vlan() { # NS TAG NET ADDRESS: a host at that VLAN
	host "$1"
	TAGGED_MTU=1600 tagged hub eth0 "t$2" "$2"
	on hub ip link set "t$2" netns "$P$1"
	on "$1" ip link set "t$2" name eth0 mtu 1500 up
	on "$1" ip address add "10.0.$3.2/24" dev eth0
	on "$1" ip address add "2001:db8:$3::2/64" dev eth0 nodad
	on "$1" ip route add default via "10.0.$3.1"
	on "$1" ip -6 route add default via "2001:db8:$3::1"
}
number_of() { # NS: of its network
	on "$1" ip -4 -o address show eth0 | sed 's/.* 10\.0\.\([0-9]\)\..*/\1/'
}
vlan c 10 1
vlan d 11 3
vlan g 20 2
vlan e 21 4
on g ip link set eth0 mtu 1600
serves g
for name in d e g; do # networks behind them
	n=$(number_of $name)
	on $name ip route add local "100.64.$n.0/24" dev lo
	on $name ip -6 route add local "2001:db8:640$n::/48" dev lo
done
on g ip route add local 198.51.100.0/24 dev lo
on g ip -6 route add local 2001:db8:98::/48 dev lo

{
	printf 'workers = [0, 1]\n[ports.p0]\ndevice = "%s"\nmtu = 1700\n' "$(device 0 v0)"
	for at in 10:1 11:3 20:2 21:4; do
		printf '[ports.p0.vlan.%s]\naddresses = ["10.0.%s.1/24", "2001:db8:%s::1/64"]\n' ${at%:*} ${at#*:} ${at#*:}
		[ "${at#*:}" != 2 ] || printf 'mtu = 1600\n'
	done
	shield_section '"p0.10", "p0.11"' '"p0.20", "p0.21"'
	for prefix in 198.51.100.0/24 2001:db8:98::/48; do
		printf '[[gatekeeper.protect]]\nprefix = "%s"\naction = "bypass"\n' $prefix
	done
	for prefix in 192.0.2.0/24 2001:db8:92::/48; do
		printf '[[gatekeeper.protect]]\nprefix = "%s"\naction = "drop"\n' $prefix
	done
	for route in 100.64.3.0/24-10.0.3.2 100.64.4.0/24-10.0.4.2 100.64.2.0/24-10.0.2.2 198.51.100.0/24-10.0.2.2 \
		203.0.113.0/24-10.0.2.2 192.0.2.0/24-10.0.2.2 \
		2001:db8:6403::/48-2001:db8:3::2 2001:db8:6404::/48-2001:db8:4::2 2001:db8:6402::/48-2001:db8:2::2 \
		2001:db8:98::/48-2001:db8:2::2 2001:db8:71::/48-2001:db8:2::2 2001:db8:92::/48-2001:db8:2::2; do
		printf '[[route]]\nprefix = "%s"\nvia = "%s"\n' "${route%-*}" "${route##*-}"
	done
} | router_start
wait_for 10 grantors_found
for name in c d g e; do # everybody is known
	n=$(number_of $name)
	assert_ping $name 10.0.$n.1
	assert_ping $name 2001:db8:$n::1
done
forwarded=$(kernel_forwarded r)

watch c d g e

expect() { # FROM DESTINATION FATE [ARGUMENTS OF odd.py]: bare, wrapped, or the reason of a drop; the hop limit is one less where it is bare
	local n=${1//[!0-9]/} source inner fate=$3 before_bare before_wrapped before
	case $1 in c) n=1 ;; d) n=3 ;; g) n=2 ;; e) n=4 ;; esac
	source=10.0.$n.2
	[ "${2#*:}" = "$2" ] || source=2001:db8:$n::2
	before_bare=$(came bare) before_wrapped=$(came wrapped) before=$(drops "$fate")
	inner=$(odd "$1" send eth0 "$(mac_of r p0)" $source "$2" --ttl 17 --count 3 --rate 100 "${@:4}")
	it_is_so() {
		case $fate in
		bare | wrapped) [ $(($(came bare) - before_bare)).$(($(came wrapped) - before_wrapped)) = \
			$([ $fate = bare ] && echo 3.0 || echo 0.3) ] ;;
		*) [ $(($(drops "$fate") - before)) -ge 3 ] && [ "$(came bare).$(came wrapped)" = "$before_bare.$before_wrapped" ] ;;
		esac
	}
	wait_for 5 it_is_so
	if [ "$fate" = wrapped ]; then found "$inner" <"$TMP/came-g" || fail "$1 to $2 is changed inside"; fi
}

# From the front: to protected, bypassed and dropped prefixes; to gateways and neighbours of the
# front and of the back; to nowhere.
expect c 203.0.113.5 wrapped
expect c 198.51.100.5 bare
expect c 192.0.2.5 discarded
expect c 100.64.3.5 front_to_front
expect c 10.0.3.2 front_to_front
expect c 100.64.4.5 front_to_back
expect c 100.64.2.5 front_to_back
expect c 10.0.2.2 front_to_back
expect c 10.0.4.2 front_to_back
expect c 172.16.0.1 front_elsewhere
expect d 203.0.113.5 wrapped
expect d 10.0.1.2 front_to_front
expect c 2001:db8:71::5 wrapped
expect c 2001:db8:98::5 bare
expect c 2001:db8:92::5 discarded
expect c 2001:db8:6403::5 front_to_front
expect c 2001:db8:3::2 front_to_front
expect c 2001:db8:6404::5 front_to_back
expect c 2001:db8:2::2 front_to_back
expect c 2001:db9::1 front_elsewhere
# From the back: to the front by route; never to the back, whether it is protected or not.
expect g 10.0.1.2 bare
expect g 100.64.3.5 bare
expect e 10.0.3.2 bare
expect g 10.0.4.2 back_to_back
expect g 100.64.4.5 back_to_back
expect e 203.0.113.5 back_to_back
expect e 198.51.100.5 back_to_back
expect e 192.0.2.5 back_to_back
expect g 2001:db8:1::2 bare
expect g 2001:db8:6403::5 bare
expect e 2001:db8:71::5 back_to_back
expect e 2001:db8:98::5 back_to_back
expect g 2001:db8:6404::5 back_to_back
# Neither by the kernel, which gets what has options, and is asked for neighbours.
expect g 100.64.3.5 bare --kind options
for to in 10.0.4.2 100.64.4.5 203.0.113.5 198.51.100.5; do
	expect g $to back_to_back --kind options
done
on e ip address add 10.0.4.9/24 dev eth0 # known to nobody
on e ip address add 2001:db8:4::9/64 dev eth0 nodad
on c ip address add 10.0.1.9/24 dev eth0
for kind in plain options; do
	expect g 10.0.4.9 back_to_back --kind $kind
	expect e 10.0.4.9 back_to_back --kind $kind
done
expect g 2001:db8:4::9 back_to_back
expect e 2001:db8:4::9 back_to_back
before=$(came bare) # at the front as ever
odd g send eth0 "$(mac_of r p0)" 10.0.2.2 10.0.1.9 >/dev/null
resolved() { [ "$(came bare)" = $((before + 1)) ]; }
wait_for 5 resolved

# This router answers on either side, at its own addresses of both.
for own in 10.0.1.1 10.0.2.1 2001:db8:1::1 2001:db8:2::1; do
	assert_ping c $own
	assert_ping g $own
done

# The whole path: the Grantor grants, the answer is routed. A frame of 408 bytes counts with its
# tag, as 412: 2,048 bytes let four pass in a second, not five.
grantor_start 10.0.1.0/24=grant:1000:600:60000:60000 2001:db8:1::/64=grant:1000:600:60000:60000 \
	10.0.3.0/24=grant:2:600:60000:60000
assert_ping c 203.0.113.5
assert_ping c 2001:db8:71::5
assert_ping c 198.51.100.5
odd d send eth0 "$(mac_of r p0)" 10.0.3.2 203.0.113.6 --size 408 >/dev/null
wait_for 5 heard_so_many 1 "inner=10.0.3.2>203.0.113.6 .*said=grant"
sleep 1.2
odd d send eth0 "$(mac_of r p0)" 10.0.3.2 203.0.113.6 --size 408 --count 20 >/dev/null
wait_for 5 heard_so_many 4 "dscp=1 .*inner=10.0.3.2>203.0.113.6 "
sleep 0.3
assert_eq "$(heard "dscp=1 .*inner=10.0.3.2>203.0.113.6 ")" 4 "frames of 412 bytes with their tag: 5 without it"
assert_eq "$(kernel_forwarded r)" $((forwarded + 3 + 1)) "packets that the kernel has forwarded: with options, to 10.0.1.9"
