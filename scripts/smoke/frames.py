#!/usr/bin/env python3
"""Frames that a kernel without VLANs, or with manners, does not send.

    frames.py tag IF TAP TAG [TAG]      a tap whose frames are tagged on IF (VLAN ids, outermost first; of
                                        several the first is a service tag, 0x88a8; as c30 or
                                        s30 any is a customer's, 0x8100, or a service tag)
    frames.py flood IF MAC SRC DST [--ttl N] [--rate N] [--seconds N] [--ports N]
                                        UDP datagrams SRC > DST to MAC
    frames.py storm IF MAC KIND OWN TARGET [--seconds N] [--peer ADDRESS]
                                        as many frames as this machine sends, to the router at MAC with the
                                        address OWN; TARGET is the network behind it. Their senders are forged:
                                        all of the link's network, or ADDRESS. KIND: arp, nd, ra, redirect, ospf,
                                        syn, exhaust, martians
    frames.py stations IF [--mac MAC] [--seconds N] [--pause SECONDS]
                                        frames from ever new addresses, or one from MAC
    frames.py station IF MAC [--tci N [--tpid N]]
                                        one frame from MAC to all, in a tag if N is given
    frames.py count IF SECONDS FILTER [--first]
                                        counts frames that come in on IF and contain FILTER (hex), or waits for one
    frames.py reflect IF                sends every frame that comes in on IF back
    frames.py echo DST [--count N] [--interval SECONDS] [--wait SECONDS]
                                        asks for N echoes, or until SIGTERM, and says how many were
                                        never answered; status 1 if any
    frames.py garbage SOCKET            what no client of the API would send
"""

import argparse
import ctypes
import errno
import fcntl
import ipaddress
import os
import random
import select
import signal
import socket
import struct
import sys
import time

ETH_P_ALL = 3
SOL_PACKET = 263
PACKET_AUXDATA = 8
TPID, OUTER_TPID = 0x8100, 0x88A8


def packet_socket(interface):
    raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    raw.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
    raw.bind((interface, ETH_P_ALL))
    return raw


def receive(raw):
    """A frame that came in, with the tag that the kernel took off put back."""
    try:
        frame, ancillary, _, address = raw.recvmsg(65536, 64)
    except OSError as error:
        if error.errno == errno.ENETDOWN:  # said once, when the link goes down
            return None
        raise
    if address[2] == socket.PACKET_OUTGOING:
        return None
    for level, kind, data in ancillary:
        if (level, kind) == (SOL_PACKET, PACKET_AUXDATA):
            status, _, _, _, _, tci, tpid = struct.unpack("=IIIHHHH", data[:20])
            if status & 0x10:  # TP_STATUS_VLAN_VALID
                tpid = tpid if status & 0x40 else TPID
                frame = frame[:12] + struct.pack("!HH", tpid, tci) + frame[12:]
    return frame


def open_tap(name):
    tap = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(tap, 0x400454CA, struct.pack("16sH22x", name.encode(), 0x1002))  # TAP, no header
    return tap


def tag(arguments):
    tags = b""
    for place, vlan in enumerate(arguments.tag):
        kind = "s" if place == 0 and len(arguments.tag) > 1 else "c"
        kind, vlan = (vlan[0], vlan[1:]) if vlan[0] in "cs" else (kind, vlan)
        tags += struct.pack("!HH", OUTER_TPID if kind == "s" else TPID, int(vlan))
    tap, raw = open_tap(arguments.tap), packet_socket(arguments.interface)
    print("ready", flush=True)
    while True:
        for ready in select.select([tap, raw], [], [])[0]:
            if ready == tap:
                frame = os.read(tap, 65536)
                try:
                    raw.send(frame[:12] + tags + frame[12:])
                except OSError:
                    pass  # too long for the link, or the link is down
            else:
                frame = receive(raw)
                if frame and is_ours(frame, tags):
                    try:
                        os.write(tap, frame[:12] + frame[12 + len(tags):])
                    except OSError:
                        pass  # the tap is not up as yet


def is_ours(frame, tags):
    """With these tags, of these types, and no more; whatever their priorities."""
    words = struct.unpack(f"!{len(tags) // 2 + 1}H", frame[12:14 + len(tags)].ljust(len(tags) + 2, b"\0"))
    plain = [word & 0xFFF if place % 2 else word for place, word in enumerate(words[:-1])]
    return tuple(plain) == struct.unpack(f"!{len(tags) // 2}H", tags) and words[-1] not in (TPID, OUTER_TPID)


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def datagram(source, destination, ttl, port):
    src, dst = ipaddress.ip_address(source), ipaddress.ip_address(destination)
    udp = struct.pack("!HHHH", port, 9, 8 + 18, 0) + bytes(18)
    if src.version == 6:
        pseudo = src.packed + dst.packed + struct.pack("!II", len(udp), 17)
        udp = udp[:6] + struct.pack("!H", checksum(pseudo + udp) or 0xFFFF) + udp[8:]
        return b"\x86\xdd" + struct.pack("!IHBB", 6 << 28, len(udp), 17, ttl) + src.packed + dst.packed + udp
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0, ttl, 17, 0) + src.packed + dst.packed
    return b"\x08\x00" + head[:10] + struct.pack("!H", checksum(head)) + head[12:] + udp


def flood(arguments):
    raw = packet_socket(arguments.interface)
    own = raw.getsockname()[4]
    mac = bytes.fromhex(arguments.mac.replace(":", ""))
    frames = [
        mac + own + datagram(arguments.source, arguments.destination, arguments.ttl, 1024 + port)
        for port in range(arguments.ports)
    ]
    begin, sent = time.monotonic(), 0
    while (now := time.monotonic() - begin) < arguments.seconds:
        if sent >= arguments.rate * now:
            time.sleep(0.0005)
            continue
        try:
            raw.send(frames[sent % len(frames)])
            sent += 1
        except OSError:
            time.sleep(0.0005)
    print(sent)


def ip_packet(source, destination, ttl, protocol, payload):
    """With the EtherType before it, and with the payload's checksum where that is at 2 (ICMPv6)
    or 16 (TCP)."""
    src, dst = ipaddress.ip_address(source), ipaddress.ip_address(destination)
    if at := {6: 16, 58: 2}.get(protocol):
        pseudo = src.packed + dst.packed + struct.pack("!II", len(payload), protocol)
        payload = payload[:at] + struct.pack("!H", checksum(pseudo + payload)) + payload[at + 2:]
    if src.version == 6:
        return b"\x86\xdd" + struct.pack("!IHBB", 6 << 28, len(payload), protocol, ttl) + src.packed + dst.packed + payload
    if protocol == 89:
        at = 12
        payload = payload[:at] + struct.pack("!H", checksum(payload)) + payload[at + 2:]
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(payload), 0, 0, ttl, protocol, 0) + src.packed + dst.packed
    return b"\x08\x00" + head[:10] + struct.pack("!H", checksum(head)) + head[12:] + payload


def tcp(flags):
    return struct.pack("!HHIIBBHHH", random.randrange(1024, 65536), 179, random.getrandbits(32), random.getrandbits(32),
                       0x50, flags, 65535, 0, 0)


def storm_frame(kind, own, target, peer):
    """One frame of a storm: hardware addresses aside, and whether it is for a group."""
    own, target = ipaddress.ip_interface(own), ipaddress.ip_network(target)
    inside = own.network.network_address + random.randrange(16, min(own.network.num_addresses - 1, 1 << 40))
    source, us, mac = str(peer or inside), own.ip, os.urandom(6)
    link_local = str(peer or ipaddress.IPv6Address((0xFE80 << 112) + random.getrandbits(64)))
    if kind == "arp":
        return b"\x08\x06" + struct.pack("!HHBBH", 1, 0x800, 6, 4, 1) + mac + ipaddress.ip_address(source).packed + bytes(6) + us.packed, True
    if kind == "nd":
        ask = struct.pack("!BBHI", 135, 0, 0, 0) + us.packed + b"\x01\x01" + mac
        return ip_packet(source, us, 255, 58, ask), False
    if kind == "ra":  # a default router, a network to take addresses of, another MTU
        prefix = struct.pack("!BBBBIII", 3, 4, 64, 0xC0, 86400, 86400, 0) + ipaddress.ip_address("2001:db8:bad::").packed
        says = struct.pack("!BBHBBHII", 134, 0, 0, 64, 0, 9000, 0, 0) + prefix + struct.pack("!BBHI", 5, 1, 0, 1280) + b"\x01\x01" + mac
        return ip_packet(link_local, "ff02::1", 255, 58, says), True
    if kind == "redirect":
        other = ipaddress.ip_address(link_local).packed
        says = struct.pack("!BBHI", 137, 0, 0, 0) + other + (target.network_address + 2).packed
        return ip_packet(link_local, us, 255, 58, says), False
    if kind == "ospf":
        router = os.urandom(4)
        hello = struct.pack("!4sHBBIII", b"\xff\xff\xff\0", 1, 2, 1, 4, 0, 0)
        says = struct.pack("!BBH4sIHHQ", 2, 1, 24 + len(hello), router, 0, 0, 0, 0) + hello
        return ip_packet(source, "224.0.0.5", 1, 89, says), True
    if kind == "syn":
        return ip_packet(source, us, 64, 6, tcp(2)), False
    if kind == "exhaust":
        nobody = target.network_address + random.randrange(1 << 16, min(target.num_addresses - 1, 1 << 60))
        return datagram(source, str(nobody), 64, 9), False
    martians = ("127.0.0.1", "0.1.2.3", "224.9.9.9", "240.1.2.3", "255.255.255.255") if us.version == 4 else ("::1", "ff02::9", "::ffff:1.2.3.4")
    return datagram(random.choice(martians), str(target.network_address + 2), 64, 9), False


def storm(arguments):
    """By sendmmsg, which Python has not: many frames for one call."""
    class Buffer(ctypes.Structure):
        _fields_ = [("base", ctypes.c_char_p), ("length", ctypes.c_size_t)]

    class Message(ctypes.Structure):  # struct mmsghdr
        _fields_ = [("name", ctypes.c_void_p), ("namelen", ctypes.c_uint), ("buffers", ctypes.POINTER(Buffer)),
                    ("count", ctypes.c_size_t), ("control", ctypes.c_void_p), ("controllen", ctypes.c_size_t),
                    ("flags", ctypes.c_int), ("sent", ctypes.c_uint)]

    raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)  # it hears nothing
    raw.bind((arguments.interface, 0))
    router = bytes.fromhex(arguments.mac.replace(":", ""))
    frames = []
    for _ in range(4096):
        frame, is_group = storm_frame(arguments.kind, arguments.own, arguments.target, arguments.peer)
        frames.append((b"\xff" * 6 if is_group else router) + b"\x02\x5a" + os.urandom(4) + frame)
    buffers = [Buffer(frame, len(frame)) for frame in frames]
    messages = (Message * len(frames))(*(Message(None, 0, ctypes.pointer(buffer), 1, None, 0, 0, 0) for buffer in buffers))
    send = ctypes.CDLL(None, use_errno=True).sendmmsg
    begin, sent = time.monotonic(), 0
    while (now := time.monotonic() - begin) < arguments.seconds:
        at = sent % len(frames)
        took = send(raw.fileno(), ctypes.byref(messages, at * ctypes.sizeof(Message)), min(64, len(frames) - at), 0)
        if took > 0:
            sent += took
        else:
            time.sleep(0.0005)
    print(sent, int(1000 * now))


def stations(arguments):
    raw, sent = packet_socket(arguments.interface), 0
    begin = time.monotonic()
    while not sent or time.monotonic() - begin < arguments.seconds:
        source = arguments.mac or f"02:5a:{sent >> 24 & 255:02x}:{sent >> 16 & 255:02x}:{sent >> 8 & 255:02x}:{sent & 255:02x}"
        try:
            raw.send(b"\x02\0\0\0\0\1" + bytes.fromhex(source.replace(":", "")) + b"\x88\xb5" + bytes(46))
            sent += 1
            if arguments.pause:
                time.sleep(arguments.pause)
        except OSError:
            time.sleep(0.0005)
    print(sent)


def station(arguments):
    source = bytes.fromhex(arguments.mac.replace(":", ""))
    tag = b"" if arguments.tci is None else struct.pack("!HH", arguments.tpid, arguments.tci)
    packet_socket(arguments.interface).send(b"\xff" * 6 + source + tag + b"\x88\xb5" + bytes(46))


def count(arguments):
    raw, wanted = packet_socket(arguments.interface), bytes.fromhex(arguments.filter)
    raw.settimeout(0.1)
    print("ready", file=sys.stderr, flush=True)
    deadline, found = time.monotonic() + arguments.seconds, 0
    while time.monotonic() < deadline:
        try:
            frame = receive(raw)
        except TimeoutError:
            continue
        found += bool(frame) and wanted in frame
        if found and arguments.first:
            break
    print(found)


def reflect(arguments):
    raw = packet_socket(arguments.interface)
    print("ready", flush=True)
    while True:
        frame = receive(raw)
        if frame:
            try:
                raw.send(frame)
            except OSError:
                pass  # the link is down


def echo(arguments):
    """What `ping` does, but for the end: it waits for the last answers for a round trip or two
    only, and on a busy machine takes those for lost."""
    version = ipaddress.ip_address(arguments.destination).version
    family, protocol, ask, answer = (
        (socket.AF_INET, socket.IPPROTO_ICMP, 8, 0) if version == 4
        else (socket.AF_INET6, socket.IPPROTO_ICMPV6, 128, 129)
    )
    raw = socket.socket(family, socket.SOCK_RAW, protocol)
    raw.connect((arguments.destination, 0))
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    ident, sent, open_ends = os.getpid() & 0xFFFF, 0, set()

    def collect(until):
        while (left := until - time.monotonic()) > 0 and select.select([raw], [], [], left)[0]:
            packet = raw.recv(2048)
            head = packet[(packet[0] & 15) * 4:] if version == 4 else packet
            kind, _, _, own, sequence = struct.unpack("!BBHHH", head[:8])
            if (kind, own) == (answer, ident):
                open_ends.discard(sequence)

    def end(*_):
        arguments.count = 0

    signal.signal(signal.SIGTERM, end)
    print("ready", flush=True)
    begin = time.monotonic()
    while arguments.count is None or sent < arguments.count:
        sequence = sent & 0xFFFF
        message = struct.pack("!BBHHH", ask, 0, 0, ident, sequence) + bytes(48)
        if version == 4:  # the kernel does it for IPv6
            message = message[:2] + struct.pack("!H", checksum(message)) + message[4:]
        open_ends.add(sequence)
        raw.send(message)
        sent += 1
        collect(begin + sent * arguments.interval)
    deadline = time.monotonic() + arguments.wait
    while open_ends and time.monotonic() < deadline:
        collect(min(deadline, time.monotonic() + 0.05))
    print(f"{sent} sent, {len(open_ends)} not answered: {sorted(open_ends)[:20]}")
    sys.exit(bool(open_ends))


def garbage(arguments):
    """Each piece on a connection of its own: cut off, senseless, endless, silent."""
    pieces = [b"", b"\0", b"{", b"null\n", b"\xff" * 100, b"\0\0\0\x05hello", b"\xff\xff\xff\xff", b"GET / HTTP/1.1\r\n\r\n",
              b"[" * 100000, b'{"show":' * 1000, bytes(1 << 20)]
    held = []
    for piece in pieces:
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(1)
        try:
            client.connect(arguments.socket)
            client.sendall(piece)
        except OSError:
            pass
        held.append(client)  # half-sent requests stay open while others work
    time.sleep(arguments.hold)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)

    command = commands.add_parser("tag")
    command.add_argument("interface")
    command.add_argument("tap")
    command.add_argument("tag", nargs="+")
    command.set_defaults(run=tag)

    command = commands.add_parser("flood")
    command.add_argument("interface")
    command.add_argument("mac")
    command.add_argument("source")
    command.add_argument("destination")
    command.add_argument("--ttl", type=int, default=64)
    command.add_argument("--rate", type=int, default=20000)
    command.add_argument("--seconds", type=float, default=3)
    command.add_argument("--ports", type=int, default=1)
    command.set_defaults(run=flood)

    command = commands.add_parser("storm")
    command.add_argument("interface")
    command.add_argument("mac")
    command.add_argument("kind", choices=["arp", "nd", "ra", "redirect", "ospf", "syn", "exhaust", "martians"])
    command.add_argument("own")
    command.add_argument("target")
    command.add_argument("--peer")
    command.add_argument("--seconds", type=float, default=3)
    command.set_defaults(run=storm)

    command = commands.add_parser("stations")
    command.add_argument("interface")
    command.add_argument("--mac")
    command.add_argument("--seconds", type=float, default=3)
    command.add_argument("--pause", type=float, default=0)
    command.set_defaults(run=stations)

    command = commands.add_parser("station")
    command.add_argument("interface")
    command.add_argument("mac")
    command.add_argument("--tci", type=lambda text: int(text, 0))
    command.add_argument("--tpid", type=lambda text: int(text, 0), default=TPID)
    command.set_defaults(run=station)

    command = commands.add_parser("count")
    command.add_argument("interface")
    command.add_argument("seconds", type=float)
    command.add_argument("filter")
    command.add_argument("--first", action="store_true")
    command.set_defaults(run=count)

    command = commands.add_parser("reflect")
    command.add_argument("interface")
    command.set_defaults(run=reflect)

    command = commands.add_parser("echo")
    command.add_argument("destination")
    command.add_argument("--count", type=int)
    command.add_argument("--interval", type=float, default=0.02)
    command.add_argument("--wait", type=float, default=5)
    command.set_defaults(run=echo)

    command = commands.add_parser("garbage")
    command.add_argument("socket")
    command.add_argument("--hold", type=float, default=1)
    command.set_defaults(run=garbage)

    arguments = parser.parse_args()
    try:
        arguments.run(arguments)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
