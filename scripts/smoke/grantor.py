#!/usr/bin/env python3
"""A stand-in for a Grantor: takes packets out of IP-in-IP, and says what it decides.

    grantor.py answer IF TUN ADDRESS... [--rule SOURCE=DECISION]... [--reread FILE] [--mute]
                                        hears IP-in-IP for ADDRESS on IF, prints a line for each packet, puts what
                                        was inside into the tun device TUN (new; the kernel takes it from there),
                                        and answers requests by the first rule whose SOURCE (a prefix) has the
                                        inner source: nobody matches, nothing is said and the packet is dropped.
                                        --mute: nothing is said, all is forwarded. --reread FILE: rules, one a
                                        line, are in FILE, which is read again before each answer.
    grantor.py tell IF MAC SOURCE GATEKEEPER FLOW=DECISION... [--spoil HOW] [--count N]
                                        a message as from the Grantor SOURCE, to the Gatekeeper at MAC. FLOW is
                                        SRC>DST. HOW: see SPOILS below.
    grantor.py check                    compares with messages and packets of a real one

DECISION: grant:RATE_KIB:EXPIRE_S:RENEW_MS:STEP_MS, decline:EXPIRE_S, program:EXPIRE_S:INDEX:COOKIE_HEX,
silent (forwarded, nothing said), drop (neither), bad (of no type that there is).

A line: outer=A>B dscp=N ecn=N ttl=N id=N df=N sum=ok|bad len=N inner=A>B bytes=HEX said=WORD
(IPv6 has no id, df and sum: 0, 1, ok.)
"""

import argparse
import fcntl
import ipaddress
import os
import socket
import struct
import sys

FROM_PORT, TO_PORT = 0xA0A0, 0xB0B0
SPOILS = {
    "": "nothing",
    "source-port": "from another port",
    "destination-port": "to another port",
    "zero-checksum": "without a checksum",
    "wrong-checksum": "with a wrong one",
    "trailing": "a byte behind what the lengths say",
    "short": "UDP's length is one less than there is",
    "fragment": "the first of two fragments",
    "version": "the version is 2",
    "reserved": "a reserved byte is set",
    "cut": "the last decision ends early",
}


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def decision(text, source, destination):
    """A decision's bytes; nothing where none is said."""
    kind, *words = text.split(":")
    flow = source.packed + destination.packed
    types = {"decline": 0, "grant": 2, "program": 4, "bad": 98}
    if kind not in types:
        if kind in ("silent", "drop"):
            return b""
        sys.exit(f"no decision: {text}")
    if kind == "decline":
        rest = struct.pack("!I", int(words[0]))
    elif kind == "grant":
        rest = struct.pack("!4I", *map(int, words))
    elif kind == "program":
        cookie = bytes.fromhex(words[2])
        cookie += bytes(-len(cookie) % 4)
        rest = struct.pack("!IBHB", int(words[0]), int(words[1]), 0, len(cookie) // 4) + cookie
    else:
        rest = bytes(4)
    return bytes([types[kind] + (source.version == 6), 0, 0, 0]) + flow + rest


def message(source, destination, decisions, spoil=""):
    """An IP packet with a message of these decisions."""
    said = b"\1\0\0\0" + b"".join(decisions)
    if spoil == "version":
        said = b"\2" + said[1:]
    elif spoil == "reserved":
        said = said[:1] + b"\1" + said[2:]
    elif spoil == "cut":
        said = said[:-1]
    ports = FROM_PORT + (spoil == "source-port"), TO_PORT + (spoil == "destination-port")
    length = 8 + len(said)
    udp = struct.pack("!HHHH", *ports, length - (spoil == "short"), 0) + said
    pseudo = source.packed + destination.packed + struct.pack("!II", length, 17)
    total = checksum(pseudo + udp) or 0xFFFF
    total = {"zero-checksum": 0, "wrong-checksum": total ^ 1}.get(spoil, total)
    udp = udp[:6] + struct.pack("!H", total) + udp[8:]
    if source.version == 4:
        part = 0x2000 if spoil == "fragment" else 0x4000  # more fragments, or none
        head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 0, part, 64, 17, 0) + source.packed + destination.packed
        packet = head[:10] + struct.pack("!H", checksum(head)) + head[12:] + udp
    else:
        kind = 17
        if spoil == "fragment":
            udp, kind = struct.pack("!BBHI", 17, 0, 1, 7) + udp, 44
        packet = struct.pack("!IHBB", 6 << 28, len(udp), kind, 255) + source.packed + destination.packed + udp
    return packet + (b"\0" if spoil == "trailing" else b"")


class Outer:
    """What is around a packet that a Gatekeeper has sent; `inner` is None for any other."""

    def __init__(self, packet):
        self.inner, self.id, self.df, self.sum = None, 0, 1, "ok"
        if len(packet) >= 20 and packet[0] >> 4 == 4:
            traffic, length, self.id, part, self.ttl, protocol = struct.unpack("!xBHHHBB", packet[:10])
            self.df, at = part >> 14 & 1, (packet[0] & 15) * 4
            self.sum = "bad" if checksum(packet[:at]) else "ok"
            self.source, self.to = (ipaddress.IPv4Address(packet[i:i + 4]) for i in (12, 16))
            is_ours = protocol == 4 and at == 20 and not part & 0x3FFF
        elif len(packet) >= 40 and packet[0] >> 4 == 6:
            word, length, protocol, self.ttl = struct.unpack("!IHBB", packet[:8])
            traffic, length, at = word >> 20 & 0xFF, length + 40, 40
            self.source, self.to = (ipaddress.IPv6Address(packet[i:i + 16]) for i in (8, 24))
            is_ours = protocol == 41 and not word & 0xFFFFF
        else:
            return
        self.dscp, self.ecn, self.len = traffic >> 2, traffic & 3, length
        if is_ours and len(packet) >= length:
            self.inner = packet[at:length]

    def ends(self):
        """Whom the packet inside is from, and for."""
        if self.inner[0] >> 4 == 4:
            return ipaddress.IPv4Address(self.inner[12:16]), ipaddress.IPv4Address(self.inner[16:20])
        return ipaddress.IPv6Address(self.inner[8:24]), ipaddress.IPv6Address(self.inner[24:40])

    def line(self, said):
        source, to = self.ends()
        return (f"outer={self.source}>{self.to} dscp={self.dscp} ecn={self.ecn} ttl={self.ttl} id={self.id} df={self.df} "
                f"sum={self.sum} len={self.len} inner={source}>{to} bytes={self.inner.hex()} said={said}")


def congested(packet):
    """The packet inside after congestion outside (RFC 6040 by the deployed Grantor)."""
    if packet[0] >> 4 == 6:
        return packet[:1] + bytes([packet[1] | 0x30]) + packet[2:]
    at = (packet[0] & 15) * 4
    head = packet[:1] + bytes([packet[1] | 3]) + packet[2:10] + b"\0\0" + packet[12:at]
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + packet[at:]


def open_tun(name):
    tun = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(tun, 0x400454CA, struct.pack("16sH22x", name.encode(), 0x1001))  # TUN, no header
    os.system(f"ip link set {name} mtu 9000 up")
    return tun


def rules(words):
    return [(ipaddress.ip_network(source), what) for source, what in (word.split("=", 1) for word in words)]


def choose(all, source):
    return next((what for net, what in all if source.version == net.version and source in net), "drop")


def answer(arguments):
    own = {ipaddress.ip_address(text) for text in arguments.address}
    raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    raw.bind((arguments.interface, 3))
    # The kernel does not say that nobody here understands IP-in-IP.
    quiet = [socket.socket(socket.AF_INET, socket.SOCK_RAW, 4), socket.socket(socket.AF_INET6, socket.SOCK_RAW, 41)]
    for one in quiet:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    tun, by = open_tun(arguments.tun), rules(arguments.rule)
    print("ready", file=sys.stderr, flush=True)
    while True:
        try:
            frame, (_, _, kind, _, _) = raw.recvfrom(65536)
        except OSError:
            continue  # the link went down
        outer = Outer(frame[14:])
        if kind == socket.PACKET_OUTGOING or not outer.inner or outer.to not in own:
            continue
        source, to = outer.ends()
        if arguments.reread:
            with open(arguments.reread) as file:
                by = rules(file.read().split())
        what = "silent" if arguments.mute or outer.dscp < 2 else choose(by, source)
        print(outer.line(what.split(":")[0]), flush=True)
        try:
            if said := decision(what, source, to):
                raw.send(frame[6:12] + frame[:6] + frame[12:14] + message(outer.to, outer.source, [said]))
            if what.split(":")[0] in ("grant", "program", "silent"):
                os.write(tun, congested(outer.inner) if outer.ecn == 3 else outer.inner)
        except OSError:
            pass  # the link went down


def tell(arguments):
    source, to = ipaddress.ip_address(arguments.source), ipaddress.ip_address(arguments.gatekeeper)
    said = []
    for word in arguments.decision:
        flow, what = word.split("=", 1)
        said.append(decision(what, *map(ipaddress.ip_address, flow.split(">"))))
    raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    raw.bind((arguments.interface, 0))
    link = bytes.fromhex(arguments.mac.replace(":", "")) + raw.getsockname()[4]
    frame = link + (b"\x08\x00" if source.version == 4 else b"\x86\xdd") + message(source, to, said, arguments.spoil)
    for _ in range(arguments.count):
        raw.send(frame)


def check(_):
    v4, v6 = ipaddress.IPv4Address, ipaddress.IPv6Address
    client, server = v4("10.0.1.2"), v4("203.0.113.5")
    real = {
        "program:300:0:0004000080a90300b80b0000": "040000000a000102cb0071050000012c0000000300040000" "80a90300b80b0000",
        "program:60:1:": "040000000a000102cb0071050000003c01000000",
        "decline:60": "000000000a000102cb0071050000003c",
        "grant:2:300:240000:3000": "020000000a000102cb007105000000020000012c0003a98000000bb8",
    }
    for text, wanted in real.items():
        assert decision(text, client, server).hex() == wanted, text
    lengths = [len(decision(text, v6("::1"), v6("::2"))) for text in real]
    assert lengths == [44 + 12, 44, 40, 52], lengths
    grantor, gatekeeper = v4("10.0.2.2"), v4("10.0.2.1")
    one = decision("decline:60", client, server)
    plain = message(grantor, gatekeeper, [one])
    assert len(plain) == 20 + 8 + 4 + 16 and checksum(plain[:20]) == 0
    pseudo = plain[12:20] + struct.pack("!II", len(plain) - 20, 17)
    assert checksum(pseudo + plain[20:]) == 0
    six = message(v6("::3"), v6("::4"), [one])
    assert checksum(six[8:40] + struct.pack("!II", len(six) - 40, 17) + six[40:]) == 0
    spoilt = {message(source, to, [one], spoil) for spoil in SPOILS for source, to in ((grantor, gatekeeper), (v6("::3"), v6("::4")))}
    assert len(spoilt) == 2 * len(SPOILS), "each is spoilt in another way"
    head = struct.pack("!BBHHHBBH", 0x45, 41 << 2 | 2, 20 + len(plain), 0, 0x4000, 64, 4, 0) + gatekeeper.packed + grantor.packed
    head = head[:10] + struct.pack("!H", checksum(head)) + head[12:]
    outer = Outer(head + plain + bytes(6))
    assert outer.inner == plain and outer.ends() == (grantor, gatekeeper)
    assert outer.line("x").startswith("outer=10.0.2.1>10.0.2.2 dscp=41 ecn=2 ttl=64 id=0 df=1 sum=ok len=68 inner=10.0.2.2>10.0.2.1")
    outer = Outer(struct.pack("!IHBB", 6 << 28 | 2 << 22 | 1 << 20, len(six), 41, 255) + v6("::4").packed + v6("::3").packed + six)
    assert (outer.dscp, outer.ecn, outer.ttl, outer.inner) == (2, 1, 255, six)
    for packet in b"", plain, plain[:19], six, head:
        assert Outer(packet).inner is None
    marked = congested(plain)
    assert marked[1] == 3 and checksum(marked[:20]) == 0 and marked[20:] == plain[20:]
    assert congested(six)[:2] == b"\x60\x30"
    by = rules(["10.0.0.0/9=silent", "::/0=decline:1", "10.0.0.0/8=grant:1:1:1:1"])
    assert [choose(by, ipaddress.ip_address(a)) for a in ("10.1.1.1", "10.200.0.1", "1.1.1.1", "::9")] == [
        "silent", "grant:1:1:1:1", "drop", "decline:1"]
    print("as it should be")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)

    command = commands.add_parser("answer")
    command.add_argument("interface")
    command.add_argument("tun")
    command.add_argument("address", nargs="+")
    command.add_argument("--rule", action="append", default=[])
    command.add_argument("--reread")
    command.add_argument("--mute", action="store_true")
    command.set_defaults(run=answer)

    command = commands.add_parser("tell")
    command.add_argument("interface")
    command.add_argument("mac")
    command.add_argument("source")
    command.add_argument("gatekeeper")
    command.add_argument("decision", nargs="+")
    command.add_argument("--spoil", choices=list(SPOILS), default="")
    command.add_argument("--count", type=int, default=1)
    command.set_defaults(run=tell)

    command = commands.add_parser("check")
    command.set_defaults(run=check)

    arguments = parser.parse_args()
    try:
        arguments.run(arguments)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
