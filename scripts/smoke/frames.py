#!/usr/bin/env python3
"""Frames that a kernel without VLANs, or with manners, does not send.

    frames.py tag IF TAP TAG [TAG]      a tap whose frames are tagged on IF (VLAN ids, outermost first)
    frames.py flood IF MAC SRC DST [--ttl N] [--rate N] [--seconds N] [--ports N]
                                        UDP datagrams SRC > DST to MAC
    frames.py stations IF [--mac MAC] [--seconds N]
                                        frames from ever new addresses, or one from MAC
    frames.py station IF MAC [--tci N]  one frame from MAC to all, in a tag if N is given
    frames.py count IF SECONDS FILTER [--first]
                                        counts frames that come in on IF and contain FILTER (hex), or waits for one
    frames.py garbage SOCKET            what no client of the API would send
"""

import argparse
import fcntl
import ipaddress
import os
import select
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
    frame, ancillary, _, address = raw.recvmsg(65536, 64)
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
    ids = arguments.tag
    tags = b""
    for place, vlan in enumerate(ids):
        outer = place == 0 and len(ids) > 1
        tags += struct.pack("!HH", OUTER_TPID if outer else TPID, vlan)
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
                if frame and is_ours(frame, ids):
                    os.write(tap, frame[:12] + frame[12 + len(tags):])


def is_ours(frame, ids):
    for place, vlan in enumerate(ids):
        tpid, tci = struct.unpack("!HH", frame[12 + 4 * place:16 + 4 * place].ljust(4, b"\0"))
        if tpid not in (TPID, OUTER_TPID) or tci & 0xFFF != vlan:
            return False
    (kind,) = struct.unpack("!H", frame[12 + 4 * len(ids):14 + 4 * len(ids)].ljust(2, b"\0"))
    return kind not in (TPID, OUTER_TPID)


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


def stations(arguments):
    raw, sent = packet_socket(arguments.interface), 0
    begin = time.monotonic()
    while not sent or time.monotonic() - begin < arguments.seconds:
        source = arguments.mac or f"02:5a:{sent >> 24 & 255:02x}:{sent >> 16 & 255:02x}:{sent >> 8 & 255:02x}:{sent & 255:02x}"
        try:
            raw.send(b"\x02\0\0\0\0\1" + bytes.fromhex(source.replace(":", "")) + b"\x88\xb5" + bytes(46))
            sent += 1
        except OSError:
            time.sleep(0.0005)
    print(sent)


def station(arguments):
    source = bytes.fromhex(arguments.mac.replace(":", ""))
    tag = b"" if arguments.tci is None else struct.pack("!HH", TPID, arguments.tci)
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
    command.add_argument("tag", type=int, nargs="+")
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

    command = commands.add_parser("stations")
    command.add_argument("interface")
    command.add_argument("--mac")
    command.add_argument("--seconds", type=float, default=3)
    command.set_defaults(run=stations)

    command = commands.add_parser("station")
    command.add_argument("interface")
    command.add_argument("mac")
    command.add_argument("--tci", type=lambda text: int(text, 0))
    command.set_defaults(run=station)

    command = commands.add_parser("count")
    command.add_argument("interface")
    command.add_argument("seconds", type=float)
    command.add_argument("filter")
    command.add_argument("--first", action="store_true")
    command.set_defaults(run=count)

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
