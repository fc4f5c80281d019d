#!/usr/bin/env python3
"""Flows as a shield knows them, pairs of addresses, that are asked and answered.

    pairs.py answer PORT                sends each datagram back
    pairs.py ask DST PORT FROM COUNT [--rate N] [--for SECONDS]
                                        COUNT flows, from the address FROM and those behind it, which need not be
                                        this machine's: N datagrams of each a second, until SIGTERM or for so long;
                                        then: flows, those that were never answered, the longest time in which one
                                        of them was not, and the longest until its first answer, in milliseconds in
                                        which this machine ran anybody

It says when it is ready, to ask when each flow has been answered once.
"""

import argparse
import ipaddress
import select
import signal
import socket
import sys
import time

from asks import Stalls

IP_FREEBIND = 15
PROMISED_S = 3.5  # a flow is granted again within
LONG_S = 0.3  # of shorter silences only the longest matters
# Answers on the way are waited for at the end until so many seconds bring none: to a socket that is gone they would
# make the kernel send ICMP errors, IPv6's from another address of this host, which is another flow.
QUIET_S = 0.3


def bound(address, port):
    """A socket at any address, whether it is this machine's or not."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    one = socket.socket(family, socket.SOCK_DGRAM)
    one.setsockopt(socket.SOL_IP, IP_FREEBIND, 1)
    if address.version == 6:
        one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    one.bind((str(address), port))
    one.setblocking(False)
    return one


def anywhere(level, told):
    """PKTINFO with the address alone: by which interface is the routes' matter."""
    return bytes(4) + told[4:] if level == socket.SOL_IP else told[:16] + bytes(4)


def answer(arguments):
    all = [bound(ipaddress.ip_address(nobody), arguments.port) for nobody in ("0.0.0.0", "::")]
    for one, level, kind in zip(all, (socket.SOL_IP, socket.IPPROTO_IPV6), (8, 49)):
        one.setsockopt(level, kind, 1)  # PKTINFO: an answer comes from the address that was asked
    print("ready", flush=True)
    while True:
        for one in select.select(all, [], [])[0]:
            data, info, _, sender = one.recvmsg(2048, 128)
            try:
                one.sendmsg([data], [(level, kind, anywhere(level, told)) for level, kind, told in info], 0, sender)
            except OSError:
                pass  # no way back as yet


class Flow:
    def __init__(self, address, to):
        self.socket, self.to = bound(address, 0), to
        self.asked, self.first, self.answered = None, None, None
        self.silences, self.longest = [], 0.0  # from when to when; seconds

    def ask(self):
        self.asked = self.asked or time.time()
        try:
            self.socket.sendto(b"?" * 32, self.to)
        except OSError:
            pass  # no way as yet

    def take(self):
        """How many answers there were."""
        count = 0
        try:
            while self.socket.recv(2048):
                count += 1
        except OSError:
            pass  # nothing more, or an ICMP error
        return count

    def hear(self, now):
        if self.take():
            if self.answered is None:
                self.first = now
            self.quiet_until(now)
            self.answered = now

    def quiet_until(self, now):
        since = self.answered or self.asked or now
        if now - since > min(LONG_S, self.longest):
            self.silences.append((since, now))
            self.longest = now - since


def ask(arguments):
    first = ipaddress.ip_address(arguments.source)
    to = (arguments.destination, arguments.port)
    flows = [Flow(first + n, to) for n in range(arguments.count)]
    poll, by = select.epoll(), {flow.socket.fileno(): flow for flow in flows}
    for number in by:
        poll.register(number, select.EPOLLIN)
    ended = []
    for number in signal.SIGTERM, signal.SIGINT:
        signal.signal(number, lambda *_: ended.append(True))
    stalls = Stalls()
    begin, sent, ready = time.monotonic(), 0, False
    while not ended:
        now = time.monotonic()
        if arguments.seconds and now - begin > arguments.seconds:
            break
        if (now - begin) * arguments.rate * len(flows) >= sent:
            flows[sent % len(flows)].ask()
            sent += 1
        for number, _ in poll.poll(0.001):
            by[number].hear(time.time())
        if not ready and all(flow.answered is not None for flow in flows):
            ready = True
            for flow in flows:
                flow.silences, flow.longest = [], 0.0
            print("ready", file=sys.stderr, flush=True)
    for flow in flows:
        flow.quiet_until(time.time())
    stalled = stalls.end()

    now = time.monotonic()
    quiet = now + QUIET_S
    while time.monotonic() < min(quiet, now + 2):
        for number, _ in poll.poll(QUIET_S):
            by[number].take()
            quiet = time.monotonic() + QUIET_S
    never = sum(flow.answered is None for flow in flows)
    longest = max((Stalls.ran(stalled, *silence, PROMISED_S) for flow in flows for silence in flow.silences), default=0)
    first = max((Stalls.ran(stalled, flow.asked, flow.first, PROMISED_S) for flow in flows if flow.first), default=0)
    print(len(flows), never, round(1000 * longest), round(1000 * first), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("answer")
    command.add_argument("port", type=int)
    command.set_defaults(run=answer)
    command = commands.add_parser("ask")
    command.add_argument("destination")
    command.add_argument("port", type=int)
    command.add_argument("source")
    command.add_argument("count", type=int)
    command.add_argument("--rate", type=float, default=10)
    command.add_argument("--for", type=float, dest="seconds")
    command.set_defaults(run=ask)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
