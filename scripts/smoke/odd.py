#!/usr/bin/env python3
"""Packets for a shield: plain ones, and those that a router hands to its kernel.

    odd.py send IF MAC SRC DST [--kind KIND] [--size BYTES] [--count N] [--rate N | --apart SECONDS] [--sources N]
                [--ecn N] [--dscp N] [--ttl N] [--df]
                                        UDP datagrams, as frames of BYTES, to the port 9; N sources count up from
                                        SRC. Of several SRC, DST, KIND and BYTES, apart by commas, all together;
                                        KIND may be `all`. Prints the last packet in hex. Their payload is LEAK again and again,
                                        so that `frames.py count` finds them wherever they come out.
                                        N a second, also if some are late; or never less than SECONDS apart.
    odd.py put TAP DST_MAC SRC DST [--count N]
                                        the same, put into TAP as its program would: as if it had come from a
                                        wire. Nobody else may have TAP open.
    odd.py watch IF                     a line for each frame with LEAK that comes in: `wrapped`, as a Gatekeeper does it,
                                        or `bare`, and the packet in hex

KIND: plain, options, ttl1, ttl0, fragment, rest (a later fragment), tagged, hop-by-hop, destination, routing,
extensions (several), checksum (of the IP header, wrong), cut (shorter than its header says), group (DST's is a
group's hardware address), protocol (unknown), truncated (of the IP header alone half)
"""

import argparse
import ipaddress
import itertools
import os
import socket
import struct
import sys
import time

from frames import checksum, open_tap, packet_socket, receive
from grantor import Outer

MARK = b"LEAK"
KINDS = {
    4: ["plain", "options", "ttl1", "ttl0", "fragment", "rest", "tagged", "checksum", "cut", "group", "protocol", "truncated"],
    6: ["plain", "ttl1", "ttl0", "fragment", "rest", "tagged", "hop-by-hop", "destination", "routing", "extensions", "cut",
        "group", "protocol", "truncated"],
}


def packet(source, to, kind, size, traffic, ttl, df):
    """An IP packet of `size` bytes, or as many as its headers need."""
    ttl = {"ttl1": 1, "ttl0": 0}.get(kind, ttl)
    protocol = 253 if kind == "protocol" else 17
    options, chain = b"", []
    if kind == "options":
        options = b"\x07\x07\x04\0\0\0\0\0"  # record route
    if source.version == 6:
        chain = {
            "hop-by-hop": [0], "destination": [60], "routing": [43], "extensions": [0, 60, 43, 60],
            "fragment": [44], "rest": [44],
        }.get(kind, [])
    head = (20 if source.version == 4 else 40) + len(options) + 8 * len(chain)
    payload = (MARK * (size // 4 + 3))[:max(16, size - head - 8)]
    udp = struct.pack("!HHHH", 4000, 9, 8 + len(payload), 0) + payload
    pseudo = source.packed + to.packed + struct.pack("!II", len(udp), 17)
    udp = udp[:6] + struct.pack("!H", checksum(pseudo + udp + b"\0" * (len(udp) % 2)) or 0xFFFF) + udp[8:]
    if kind == "rest":
        udp = payload + bytes(8 - len(payload) % 8)
    if source.version == 4:
        part = {"fragment": 0x2000, "rest": 100}.get(kind, 0x4000 if df else 0)
        first = 0x45 + len(options) // 4
        ip = struct.pack("!BBHHHBBH", first, traffic, 20 + len(options) + len(udp), 77, part, ttl, protocol, 0)
        ip += source.packed + to.packed + options
        total = checksum(ip) ^ (1 if kind == "checksum" else 0)
        whole = ip[:10] + struct.pack("!H", total) + ip[12:] + udp
    else:
        kinds = chain + [protocol]
        between = b""
        for at, header in enumerate(chain):
            after = kinds[at + 1]
            if header == 44:
                between += struct.pack("!BBHI", after, 0, {"fragment": 1, "rest": 800}[kind], 7)
            else:  # padding; a routing header of no segments
                between += bytes([after, 0]) + (bytes([4, 0]) + bytes(4) if header == 43 else b"\1\4" + bytes(4))
        ip = struct.pack("!IHBB", 6 << 28 | traffic << 20, len(between) + len(udp), kinds[0], ttl)
        whole = ip + source.packed + to.packed + between + udp
    if kind == "cut":
        return whole[:-8]
    return whole[:12] if kind == "truncated" else whole


def frame(link, source, to, kind, size, *rest):
    inside = packet(source, to, kind, size - 14, *rest)
    ether = b"\x08\x00" if source.version == 4 else b"\x86\xdd"
    if kind == "tagged":
        ether = b"\x88\xa8\x00\x05\x81\x00\x00\x06" + ether
    if kind == "group":
        last = to.packed
        group = b"\x01\0\x5e" + bytes([last[1] & 127]) + last[2:] if source.version == 4 else b"\x33\x33" + last[12:]
        link = group + link[6:]
    return link + ether + inside, inside


def send(arguments):
    raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    raw.bind((arguments.interface, 0))
    link = bytes.fromhex(arguments.mac.replace(":", "")) + raw.getsockname()[4]
    traffic = arguments.dscp << 2 | arguments.ecn
    frames = []
    for source, to, size in itertools.product(addresses(arguments.source), addresses(arguments.destination), arguments.size.split(",")):
        for kind in KINDS[to.version] if arguments.kind == "all" else arguments.kind.split(","):
            frames += [frame(link, source + number, to, kind, int(size), traffic, arguments.ttl, arguments.df)
                       for number in range(arguments.sources)]
    begin = time.monotonic()
    for sent in range(arguments.count * len(frames) // arguments.sources):
        while arguments.rate and time.monotonic() < begin + sent / arguments.rate:
            time.sleep(0.0002)
        if sent and arguments.apart:
            time.sleep(arguments.apart)
        raw.send(frames[sent % len(frames)][0])
    print(frames[-1][1].hex())


def addresses(words):
    return [ipaddress.ip_address(word) for word in words.split(",")]


def put(arguments):
    source, to = ipaddress.ip_address(arguments.source), ipaddress.ip_address(arguments.destination)
    link = bytes.fromhex(arguments.mac.replace(":", "")) + b"\x02\0\0\0\0\x0d"
    tap = open_tap(arguments.tap)
    for _ in range(arguments.count):
        os.write(tap, frame(link, source, to, "plain", 100, 0, 64, False)[0])
        time.sleep(0.02)
    time.sleep(0.5)  # its frames are gone with it


def watch(arguments):
    raw = packet_socket(arguments.interface)
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    print("ready", file=sys.stderr, flush=True)
    while True:
        found = receive(raw)
        if found and MARK * 2 in found:
            print("wrapped" if Outer(found[14:]).inner else "bare", found[14:].hex(), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)

    command = commands.add_parser("send")
    command.add_argument("interface")
    command.add_argument("mac")
    command.add_argument("source")
    command.add_argument("destination")
    command.add_argument("--kind", default="plain")
    command.add_argument("--size", default="100")
    command.add_argument("--count", type=int, default=1)
    command.add_argument("--rate", type=float)
    command.add_argument("--apart", type=float)
    command.add_argument("--sources", type=int, default=1)
    command.add_argument("--ecn", type=int, default=0)
    command.add_argument("--dscp", type=int, default=0)
    command.add_argument("--ttl", type=int, default=64)
    command.add_argument("--df", action="store_true")
    command.set_defaults(run=send)

    command = commands.add_parser("put")
    command.add_argument("tap")
    command.add_argument("mac")
    command.add_argument("source")
    command.add_argument("destination")
    command.add_argument("--count", type=int, default=1)
    command.set_defaults(run=put)

    command = commands.add_parser("watch")
    command.add_argument("interface")
    command.set_defaults(run=watch)

    arguments = parser.parse_args()
    try:
        arguments.run(arguments)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
