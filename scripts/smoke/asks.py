#!/usr/bin/env python3
"""A stand-in for Gatekeepers that ask a real Grantor: requests out, decisions in.

    asks.py once IF MAC GRANTOR TO PORT [--from ADDRESS] [--count N] [--at-once] [--priority N] [--wait SECONDS]
                 [--fill BYTE]
                       so many new flows to the UDP port, one after another or at once, with 1,300 bytes of this value; a
                       line of all
    asks.py stream IF MAC GRANTOR TO [--pause SECONDS]
                       a new flow to UDP port 1000 every so often until SIGTERM, then one line of all
    asks.py granted IF MAC GRANTOR TO PORT [--pause SECONDS]
                       packets of one granted flow, every so often, until SIGTERM; then their number
    asks.py arrive PORT
                       takes those packets where they are for, until SIGTERM; then a line: sum, and ms, the longest that
                       one was on its way
    asks.py check      compares with messages of grantor.py

IF is the interface, MAC the Grantor's, GRANTOR its address, TO the inner destination. Requests come from all of the
interface's addresses in turn. A line is JSON: what (granted, declined: the policy's; instead: without a program, what
stands for a verdict; none), ms, the longest that one took, stalled, for how many ms meanwhile this machine ran nobody,
of which ms leaves out as much as is promised, and the number of decisions by what they are.
"""

import argparse
import collections
import ipaddress
import json
import os
import select
import signal
import socket
import struct
import time

from grantor import FROM_PORT, TO_PORT, checksum, decision, message

PATIENCE_S = 2  # for one decision
PROMISED_S = 0.2  # others decide within
NEWCOMER = 41  # the priority of a flow's first packet
GRANTED = 1  # the DSCP of a packet that may pass
SO_TIMESTAMPNS = 35
QUIET_S = 0.5  # nothing more is on its way


def head(kind, traffic, length, source, to):
    text = struct.pack("!BBHHHBBH", 0x45, traffic, 20 + length, 0, 0x4000, 64, kind, 0) + source + to
    return text[:10] + struct.pack("!H", checksum(text)) + text[12:]


def wrapped(outer, grantor, source, to, port, dscp, payload=b""):
    """What a Gatekeeper sends of a packet: as a request of that priority, or granted."""
    udp = struct.pack("!HHHH", 999, port, 8 + len(payload), 0) + payload
    inner = head(17, 0, len(udp), source, to) + udp
    return head(4, dscp << 2, len(inner), outer, grantor) + inner


def decisions(packet):
    """Flow (source, destination) and what is decided, of each decision in an IPv4 packet; no other has any."""
    at = (packet[0] & 15) * 4 if packet else 0
    if len(packet) < at + 12 or packet[0] >> 4 != 4 or packet[9] != 17:
        return
    length = struct.unpack("!H", packet[2:4])[0]
    if (FROM_PORT, TO_PORT) != struct.unpack("!HH", packet[at:at + 4]):
        return
    said = packet[at + 12:length]
    while said:
        kind, flow = said[0], said[4:12]
        if kind == 4:
            index, words = said[16], said[19]
            what, size = {0: "granted", 1: "declined"}.get(index, "program"), 20 + 4 * words
        else:
            what, size = "instead", {0: 16, 2: 28}[kind]
        yield (flow[:4], flow[4:]), what
        said = said[size:]


def came(ancillary):
    """When the kernel got it, by time.time(): this program may have waited for its turn since."""
    seconds, ns = struct.unpack("=qq", ancillary[0][2])
    return seconds + ns / 10**9


class Stalls:
    """Notes when this machine, a virtual one, ran nobody: a process that only sleeps, and is woken late."""

    USUAL_S = 0.1

    def __init__(self):
        self.result, answer = os.pipe()
        parent, over = os.getpid(), []
        self.child = os.fork()
        if self.child:
            os.close(answer)
            return
        signal.signal(signal.SIGTERM, lambda *_: over.append(True))
        found, last = [], time.time()
        while not over and os.getppid() == parent:
            time.sleep(0.002)
            now = time.time()
            if now - last > self.USUAL_S:
                found.append((last, now))
            last = now
        os.write(answer, json.dumps(found[:1000]).encode())
        os._exit(0)

    @staticmethod
    def ran(stalls, since, until, most):
        """How many seconds of that time this machine ran somebody; most is the most to be left out."""
        return until - since - min(most, sum(max(0, min(until, end) - max(since, begin)) for begin, end in stalls))

    def end(self):
        os.kill(self.child, signal.SIGTERM)
        with os.fdopen(self.result) as result:
            found = json.loads(result.read() or "[]")  # nothing where it was ended at once
        os.waitpid(self.child, 0)
        return found


class Asks:
    def __init__(self, arguments):
        self.to = ipaddress.ip_address(arguments.to).packed
        self.grantor = ipaddress.ip_address(arguments.grantor).packed
        self.raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
        self.raw.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self.raw.bind((arguments.interface, 0x0800))
        own = self.raw.getsockname()[4]
        self.link = bytes.fromhex(arguments.mac.replace(":", "")) + own + b"\x08\x00"
        listed = json.loads(os.popen(f"ip -j -4 address show dev {arguments.interface}").read())
        self.own = [ipaddress.ip_address(one["local"]).packed for one in listed[0]["addr_info"]]
        self.open = {}  # flow: since when
        self.next = int.from_bytes(os.urandom(3)) | 0x0B000000
        self.what, self.waits, self.stalls = collections.Counter(), [], Stalls()

    def ask(self, port, source=None, priority=NEWCOMER, payload=b""):
        self.next += 1
        source = source or struct.pack("!I", self.next)
        outer = self.own[self.next % len(self.own)]
        packet = self.link + wrapped(outer, self.grantor, source, self.to, port, priority, payload)
        self.open[(source, self.to)] = time.time()
        self.raw.send(packet)

    def hear(self, most):
        """Until nothing is open, or so many seconds."""
        end = time.monotonic() + most
        while self.open and (left := end - time.monotonic()) > 0:
            if select.select([self.raw], [], [], left)[0]:
                frame, ancillary, _, (_, _, kind, _, _) = self.raw.recvmsg(65536, 64)
                if kind != socket.PACKET_OUTGOING:
                    self.take(decisions(frame[14:]), came(ancillary))

    def take(self, said, at):
        for flow, what in said:
            since = self.open.pop(flow, None)
            if since is not None:
                self.waits.append((since, at))
                self.what[what] += 1

    def give_up(self, older):
        for flow in [flow for flow, since in self.open.items() if time.time() - since >= older]:
            del self.open[flow]
            self.what["none"] += 1

    def line(self):
        what = self.what.most_common(1)[0][0] if self.what else "none"
        stalls = self.stalls.end()
        longest = max((Stalls.ran(stalls, since, at, PROMISED_S) for since, at in self.waits), default=0)
        stalled = sum(end - begin for begin, end in stalls)
        return json.dumps({"what": what, "ms": round(longest * 1000, 1), "stalled": round(stalled * 1000, 1),
                           "sum": self.what.total(), **self.what})


def once(arguments):
    asks = Asks(arguments)
    source = arguments.source and ipaddress.ip_address(arguments.source).packed
    payload = b"" if arguments.fill is None else bytes([arguments.fill]) * 1300
    for _ in range(arguments.count):
        asks.ask(arguments.port, source, arguments.priority, payload)
        if not arguments.at_once:
            asks.hear(arguments.wait)
    asks.hear(arguments.wait)
    asks.give_up(0)
    print(asks.line())


def stream(arguments):
    asks, over = Asks(arguments), []
    signal.signal(signal.SIGTERM, lambda *_: over.append(True))
    print("ready", flush=True)
    due = time.monotonic()
    while not over:
        asks.ask(1000)
        due = max(due + arguments.pause, time.monotonic() - 0.05)
        while not over and (left := due - time.monotonic()) > 0:
            if asks.open:
                asks.hear(left)
            else:
                time.sleep(left)
        asks.give_up(PATIENCE_S)
    asks.hear(PATIENCE_S)
    asks.give_up(0)
    print(asks.line())


def granted(arguments):
    asks, over, sent = Asks(arguments), [], 0
    asks.stalls.end()
    signal.signal(signal.SIGTERM, lambda *_: over.append(True))
    source = struct.pack("!I", asks.next)
    print("ready", flush=True)
    while not over:
        now = struct.pack("!d", time.time())
        asks.raw.send(asks.link + wrapped(asks.own[0], asks.grantor, source, asks.to, arguments.port, GRANTED, now))
        sent += 1
        time.sleep(arguments.pause)
    print(sent)


def arrive(arguments):
    one, over = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), []
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)  # this program may wait for its turn
    one.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    one.bind(("", arguments.port))
    one.settimeout(QUIET_S)
    signal.signal(signal.SIGTERM, lambda *_: over.append(True))
    print("ready", flush=True)
    count, longest = 0, 0.0
    while True:
        try:
            data, ancillary, _, _ = one.recvmsg(64, 64)
        except TimeoutError:
            if over:
                break
            continue
        count, longest = count + 1, max(longest, came(ancillary) - struct.unpack("!d", data)[0])
    print(json.dumps({"sum": count, "ms": round(longest * 1000, 1)}))


def check(_):
    v4 = ipaddress.IPv4Address
    client, server = v4("10.0.1.2"), v4("203.0.113.5")
    texts = ["program:300:0:0004000080a90300b80b0000", "decline:60", "program:60:1:", "grant:2:300:240000:3000"]
    packet = message(v4("10.0.2.2"), v4("10.0.2.1"), [decision(text, client, server) for text in texts])
    flow = (client.packed, server.packed)
    wanted = [(flow, what) for what in ("granted", "instead", "declined", "instead")]
    assert list(decisions(packet + b"\0\0")) == wanted
    assert not list(decisions(b"")) and not list(decisions(wrapped(b"aaaa", b"bbbb", b"cccc", b"dddd", 7, NEWCOMER)))
    print("as it should be")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for name, run in (("once", once), ("stream", stream), ("granted", granted)):
        command = commands.add_parser(name)
        for word in ("interface", "mac", "grantor", "to"):
            command.add_argument(word)
        command.set_defaults(run=run)
        if name != "stream":
            command.add_argument("port", type=int)
        if name == "once":
            command.add_argument("--from", dest="source")
            command.add_argument("--count", type=int, default=1)
            command.add_argument("--at-once", action="store_true")
            command.add_argument("--priority", type=int, default=NEWCOMER)
            command.add_argument("--wait", type=float, default=PATIENCE_S)
            command.add_argument("--fill", type=int)
        else:
            command.add_argument("--pause", type=float, default=0.005)
    command = commands.add_parser("arrive")
    command.add_argument("port", type=int)
    command.set_defaults(run=arrive)
    command = commands.add_parser("check")
    command.set_defaults(run=check)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
