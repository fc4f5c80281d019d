#!/usr/bin/env python3
"""What scripts/failover.sh does with packets.

    failover.py routes N KIND NEAR OTHER  `ip -batch` lines: N prefixes of the Internet's lengths, each by a gateway on
                                          NEAR and one on OTHER: `second` by two metrics, `ecmp` by two paths, `objects`
                                          by next-hop objects
    failover.py measure …                 sends through a router, takes the far end of one of its ways out down, and
                                          says for how long packets were lost (`--help`)

A loss lasts from the sending of the last packet that arrived before it to that of the first that did after it, so that
a pause of the sender counts as loss. How long that is after the kernel's message of it is said as well.
"""

import argparse
import ctypes
import fcntl
import importlib.util
import json
import os
import pathlib
import random
import socket
import statistics
import struct
import threading
import time

GATEWAYS = 20  # of each way out
ETH_P_ALL = 3
MARK = b"rutter loss"
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
RTM_NEWLINK, RTMGRP_LINK, IFF_RUNNING = 16, 1, 0x40
CLONE_NEWNET = 0x40000000
SO_RCVBUFFORCE = 33


def prefixes(count):
    path = pathlib.Path(__file__).parent / "smoke" / "probe.py"
    spec = importlib.util.spec_from_file_location("probe", path)
    probe = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(probe)
    return probe.prefixes(4, count)


def text(address):
    return socket.inet_ntoa(struct.pack("!I", address))


def routes(arguments):
    near, other, kind = arguments.near, arguments.other, arguments.kind
    source = random.Random(3)
    lines = []
    if kind == "objects":
        for i in range(GATEWAYS):
            lines.append(f"nexthop add id {1 + i} via 10.0.1.{2 + i} dev {near}")
            lines.append(f"nexthop add id {101 + i} via 10.0.2.{2 + i} dev {other}")
        for i in range(GATEWAYS):
            for j in range(GATEWAYS):
                lines.append(f"nexthop add id {1000 + i * GATEWAYS + j} group {1 + i}/{101 + j}")
    for address, length in prefixes(arguments.n):
        i, j = source.randrange(GATEWAYS), source.randrange(GATEWAYS)
        net = f"route add {text(address)}/{length} proto static"
        by_near, by_other = f"via 10.0.1.{2 + i} dev {near}", f"via 10.0.2.{2 + j} dev {other}"
        if kind == "second":
            lines.append(f"{net} {by_near} metric 10")
            lines.append(f"{net} {by_other} metric 20")
        elif kind == "ecmp":
            lines.append(f"{net} nexthop {by_near} nexthop {by_other}")
        else:
            lines.append(f"{net} nhid {1000 + i * GATEWAYS + j}")
    print("\n".join(lines))


def frame(mac, address):
    """A packet to `address` without its number, which is last."""
    body = MARK + bytes(8)
    udp = struct.pack("!HHHH", 4000, 4001, 8 + len(body), 0) + body
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0)
    head += socket.inet_aton("10.0.3.9") + struct.pack("!I", address)
    total = sum(struct.unpack("!10H", head))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    head = head[:10] + struct.pack("!H", ~total & 0xFFFF) + head[12:]
    return bytearray(bytes.fromhex(mac.replace(":", "")) + bytes([2, 0, 0, 0, 9, 9, 8, 0]) + head + udp)


def packet_socket(interface):
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    s.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 256 << 20)
    s.bind((interface, ETH_P_ALL))
    s.setblocking(False)
    return s


def arrived(s):
    """The numbers of the packets that wait in a socket."""
    numbers = set()
    while True:
        try:
            data, (_, _, direction, *_) = s.recvfrom(2048)
        except BlockingIOError:
            return numbers
        except OSError:
            continue  # its interface went down, once
        if direction != socket.PACKET_OUTGOING and data[42:42 + len(MARK)] == MARK:
            numbers.add(struct.unpack("!Q", data[42 + len(MARK):50 + len(MARK)])[0])


def news_of(namespace, interface):
    """Hears of links in another namespace; its own is entered again."""
    libc = ctypes.CDLL(None, use_errno=True)
    enter = lambda file: libc.setns(file.fileno(), CLONE_NEWNET)
    with open("/proc/self/ns/net") as own, open(f"/run/netns/{namespace}") as other:
        assert enter(other) == 0
        index = socket.if_nametoindex(interface)
        s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        s.bind((0, RTMGRP_LINK))
        s.setblocking(False)
        assert enter(own) == 0
    return s, index


def is_lost(s, index):
    """Whether the kernel says that the link has no carrier."""
    try:
        data = s.recv(65536)
    except BlockingIOError:
        return False
    kind, = struct.unpack_from("=H", data, 4)
    about, flags = struct.unpack_from("=iI", data, 20)
    return kind == RTM_NEWLINK and about == index and not flags & IFF_RUNNING


def set_up(interface, up):
    with socket.socket() as s:
        name = interface.encode()
        flags, = struct.unpack("16xh", fcntl.ioctl(s, SIOCGIFFLAGS, struct.pack("16sh", name, 0)))
        flags = flags | IFF_UP if up else flags & ~IFF_UP
        fcntl.ioctl(s, SIOCSIFFLAGS, struct.pack("16sh", name, flags))


def loss(arguments, frames):
    """Sends, takes the far end down in the midst of it, and brings it back."""
    into, lost, other = (packet_socket(name) for name in (arguments.into, arguments.lost, arguments.other))
    news, index = news_of(arguments.namespace, arguments.interface)
    sent, reported, cut = [], None, None
    taker = threading.Thread(target=set_up, args=(arguments.lost, False))
    begin = time.perf_counter()
    while (now := time.perf_counter() - begin) < arguments.before + arguments.after:
        if now < len(sent) / arguments.rate:
            continue
        if cut is None and now >= arguments.before:
            cut = now
            taker.start()
        number = len(sent)
        packet = frames[number % len(frames)]
        packet[-8:] = struct.pack("!Q", number)
        sent.append(time.perf_counter() - begin)
        into.send(packet)
        if reported is None and cut is not None and is_lost(news, index):
            reported = time.perf_counter() - begin
    taker.join()
    time.sleep(0.2)
    by_lost, by_other = arrived(lost), arrived(other)
    set_up(arguments.lost, True)
    for s in (into, lost, other, news):
        s.close()
    missing = [n for n in range(len(sent)) if n not in by_lost and n not in by_other]
    # What was lost before, or never came again, is no failover.
    if reported is None or missing and (sent[missing[0]] < cut or missing[-1] + 1 == len(sent)):
        return {"wrong": f"{len(missing)} packets lost, carrier lost at {cut}, news at {reported}"}
    around = [(a, b) for a, b in zip(sent, sent[1:]) if cut <= b and a <= reported + 0.005]
    before, after = max(around, key=lambda pair: pair[1] - pair[0])
    if missing:
        before, after = sent[missing[0] - 1], sent[missing[-1] + 1]
    return {
        "outage_ms": (after - before) * 1e3,
        "since_news_ms": max(0, after - reported) * 1e3 if missing else 0,
        "reported_ms": (reported - cut) * 1e3,
        "lost": len(missing),
    }


def flap(arguments):
    """Takes the far end down and up again, many times."""
    for _ in range(arguments.flaps):
        for up in (False, True):
            set_up(arguments.lost, up)
            time.sleep(0.01)


def measure(arguments):
    if arguments.flaps:
        return flap(arguments)
    source = random.Random(7)
    chosen = prefixes(arguments.n)
    source.shuffle(chosen)
    inside = lambda address, length: address | source.getrandbits(32) & (1 << 32 - length) - 1
    frames = [frame(arguments.mac, inside(*prefix)) for prefix in chosen[:arguments.probed]]
    print(json.dumps(loss(arguments, frames)))


def summary(arguments):
    """One line of the losses that a file has, and status 1 where the goal is missed."""
    all_losses = [json.loads(line) for line in open(arguments.file)]
    losses = [one for one in all_losses if "wrong" not in one]
    if not losses:
        print(f"{arguments.name}: no figure: {all_losses}")
        raise SystemExit(1)
    of = lambda key: [one[key] for one in losses]
    middle = lambda key: f"{statistics.median(of(key)):.2f} ms (worst {max(of(key)):.2f})"
    print(
        f"{arguments.name}: {middle('outage_ms')}; the kernel's news after {middle('reported_ms')},"
        f" then {middle('since_news_ms')}; {statistics.median(of('lost')):.0f} packets of {arguments.rate}/s; {len(losses)} losses"
        f" ({len(all_losses) - len(losses)} without a figure)"
    )
    raise SystemExit(arguments.most is not None and statistics.median(of("outage_ms")) > arguments.most)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("routes")
    one.add_argument("n", type=int)
    one.add_argument("kind", choices=["second", "ecmp", "objects"])
    one.add_argument("near")
    one.add_argument("other")
    one.set_defaults(run=routes)
    one = commands.add_parser("measure")
    one.add_argument("n", type=int, help="prefixes, as `routes` has them")
    one.add_argument("mac", help="the router's, where packets go in")
    one.add_argument("into", help="the interface that they are sent by")
    one.add_argument("lost", help="the far end of the way that is lost")
    one.add_argument("other", help="that of the other")
    one.add_argument("namespace", help="the router's")
    one.add_argument("interface", help="the near end of the way that is lost")
    one.add_argument("--probed", type=int, default=2000, help="prefixes that packets go to")
    one.add_argument("--rate", type=int, default=20000, help="packets a second")
    one.add_argument("--before", type=float, default=0.1)
    one.add_argument("--after", type=float, default=0.6)
    one.add_argument("--flaps", type=int, default=0, help="only loses the way, and restores it, so often")
    one.set_defaults(run=measure)
    one = commands.add_parser("summary")
    one.add_argument("name")
    one.add_argument("file")
    one.add_argument("--rate", type=int, default=20000)
    one.add_argument("--most", type=float)
    one.set_defaults(run=summary)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
