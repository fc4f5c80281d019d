#!/usr/bin/env python3
"""Probes of a routing table with packets: the kernel says what may come out where.

    probe.py routes V4 V6               `ip -batch` lines: so many prefixes of the Internet's lengths, by gateways on p1
                                        and p2, some by several, some at two metrics, some nowhere
    probe.py addresses V4 V6 SEED       so many addresses, half of them inside such prefixes
    probe.py hear IF FILE               notes each probe that comes in on IF, until SIGTERM: address, MAC
    probe.py send IF MAC FILE --rate N  a probe to MAC for each address of FILE
    probe.py judge ADDRESSES ANSWERS ERRORS NEIGHBOURS MISSING ROUNDS PORT=FILE …
                                        compares what was heard at each port with the kernel's answers (`ip -o -force
                                        -batch` of `route get fibmatch`, and its errors); writes those that nobody
                                        heard, and should have; status 1 where one was heard that should not, or more
                                        than ROUNDS times, or by two ways (one may be late, and sent again meanwhile)
"""

import ipaddress
import random
import re
import signal
import socket
import struct
import sys
import time

ETH_P_ALL = 3
GATEWAYS = 10  # of each port
MARK = b"rutter probe"
# Lengths as in tables of the Internet, in percent.
LENGTHS4 = {24: 56, 22: 11, 23: 9, 20: 5, 21: 5, 19: 4, 16: 4, 18: 2, 17: 1, 32: 1, 28: 1, 12: 1}
LENGTHS6 = {48: 50, 32: 14, 44: 10, 40: 10, 36: 6, 29: 4, 64: 4, 128: 2}


def prefixes(version, count):
    """Distinct prefixes, a third of them inside others, and none that is special."""
    source = random.Random(version)
    lengths = LENGTHS4 if version == 4 else LENGTHS6
    width = 32 if version == 4 else 128
    known, chosen = set(), []
    names, weights = list(lengths), list(lengths.values())
    while len(chosen) < count:
        length = source.choices(names, weights)[0]
        if version == 4:
            address = source.randrange(1 << 24, 224 << 24)
            if address >> 24 in (10, 127) or address >> 16 == 0xA9FE:
                continue
        else:
            address = 0x24 << 120 | source.getrandbits(24) << 96 | source.getrandbits(96)
        if chosen and source.random() < 0.33:
            outer, outer_length = source.choice(chosen)
            if outer_length < length:
                mask = (1 << width - outer_length) - 1
                address = outer & ~mask | address & mask
        address = address >> width - length << width - length
        if (address, length) not in known:
            known.add((address, length))
            chosen.append((address, length))
    return chosen


def text(version, address):
    return str(ipaddress.IPv4Address(address) if version == 4 else ipaddress.IPv6Address(address))


def gateway(version, number):
    port, host = 1 + number % 2, 10 + number // 2
    network = f"10.0.{port + 1}." if version == 4 else f"2001:db8:{port + 1}::"
    return f"p{port}", f"{network}{host}"


def routes(version, count):
    source = random.Random(100 + version)
    for number in range(2 * GATEWAYS):
        port, via = gateway(version, number)
        mac = f"02:00:00:00:{port[1:]:0>2}:{number:02x}"
        yield f"neigh replace {via} dev {port} lladdr {mac} nud permanent"
    for address, length in prefixes(version, count):
        prefix = f"{text(version, address)}/{length}"
        ways = [gateway(version, source.randrange(2 * GATEWAYS)) for _ in range(3)]
        to = [f"via {via} dev {port}" for port, via in ways]
        kind = source.random()
        if kind < 0.02:
            yield f"route add {source.choice(['blackhole', 'unreachable'])} {prefix}"
        elif kind < 0.2 and ways[0] != ways[1]:
            yield f"route add {prefix} nexthop {to[0]} nexthop {to[1]}"
        else:
            yield f"route add {prefix} {to[0]} metric 10"
        if kind > 0.5:
            yield f"route add {prefix} {to[1]} metric 20"
        if kind > 0.9:
            yield f"route add {prefix} {to[2]} metric 30"


def addresses(version, count, seed):
    source = random.Random(f"{version} {seed}")
    width = 32 if version == 4 else 128
    some = prefixes(version, count)
    for number in range(count):
        address, length = some[number]
        if number % 2:
            address = source.randrange(1 << 24, 224 << 24) if version == 4 else 0x24 << 120 | source.getrandbits(120)
        else:
            address |= source.getrandbits(width - length) if length < width else 0
        if version == 6 or address >> 24 not in (10, 127) and address >> 16 != 0xA9FE:
            yield text(version, address)


def packet_socket(interface):
    raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    raw.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
    raw.bind((interface, ETH_P_ALL))
    return raw


def mac_text(mac):
    return ":".join(f"{byte:02x}" for byte in mac)


def hear(interface, file):
    raw = packet_socket(interface)
    # To every gateway's MAC.
    index = socket.if_nametoindex(interface)
    raw.setsockopt(263, 1, struct.pack("IHH8s", index, 1, 0, b""))  # PACKET_ADD_MEMBERSHIP, PACKET_MR_PROMISC
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with open(file, "a", encoding="ascii", buffering=1) as heard:
        print("ready", flush=True)
        while True:
            try:
                frame, address = raw.recvfrom(2048)
            except OSError:  # the link is down
                time.sleep(0.05)
                continue
            if address[2] == socket.PACKET_OUTGOING or MARK not in frame:
                continue
            six = frame[12:14] == b"\x86\xdd"
            to = frame[38:54] if six else frame[30:34]
            print(ipaddress.ip_address(to), mac_text(frame[:6]), file=heard)


def checksum(header):
    total = sum(struct.unpack(f"!{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def probe(mac, own, to):
    payload = MARK.ljust(20, b".")
    udp = struct.pack("!HHHH", 40000, 40000, 8 + len(payload), 0) + payload
    if to.version == 6:
        source = ipaddress.ip_address("2001:db8:1::2").packed
        ip = struct.pack("!IHBB", 6 << 28, len(udp), 17, 64) + source + to.packed
        return mac + own + b"\x86\xdd" + ip + udp
    source = ipaddress.ip_address("10.0.1.2").packed
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0, source, to.packed)
    ip = ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:]
    return mac + own + b"\x08\x00" + ip + udp


def send(interface, mac, file, rate):
    raw = packet_socket(interface)
    own = raw.getsockname()[4]
    start, sent = time.monotonic(), 0
    with open(file, encoding="ascii") as lines:
        for line in lines:
            raw.send(probe(bytes.fromhex(mac.replace(":", "")), own, ipaddress.ip_address(line.strip())))
            sent += 1
            late = start + sent / rate - time.monotonic()
            if late > 0:
                time.sleep(late)


def lines(file):
    with open(file, encoding="ascii", errors="replace") as text_file:
        return text_file.read().splitlines()


def judge(asked, answered, errors, neighbours, missing, rounds, heard_at):
    asked = lines(asked)
    refused = {int(number) - 1 for number in re.findall(r"Command failed \S+:(\d+)", "\n".join(lines(errors)))}
    answers = iter(lines(answered))
    macs = dict(re.findall(r"^(\S+) dev \S+ lladdr (\S+)", "\n".join(lines(neighbours)), re.M))
    allowed = {}
    for number, address in enumerate(asked):
        ways = set()
        if number not in refused:
            # A way without a carrier is none.
            for way in re.split(r"nexthop", next(answers).replace("\\", " ")):
                found = re.search(r"via (\S+) dev (\S+)", way)
                if found and "linkdown" not in way and "dead" not in way:
                    ways.add((found[2], macs[found[1]]))
        allowed[address] = ways
    if next(answers, None) is not None:
        sys.exit("the kernel answered more than it was asked")
    heard = {}
    for port, file in heard_at:
        for line in lines(file):
            address, mac = line.split()
            heard.setdefault(address, []).append((port, mac))
    wrong = [(a, ways) for a, ways in heard.items()
             if a in allowed and (len(ways) > int(rounds) or len(set(ways)) > 1 or ways[0] not in allowed[a])]
    for address, ways in wrong[:10]:
        print(f"{address} left by {ways}, allowed: {sorted(allowed[address])}")
    silent = [address for address, ways in allowed.items() if ways and address not in heard]
    with open(missing, "w", encoding="ascii") as out:
        out.writelines(f"{address}\n" for address in silent)
    routed = sum(1 for ways in allowed.values() if ways)
    print(f"{len(asked)} probes, {routed} with a way, {len(wrong)} wrong, {len(silent)} missing")
    sys.exit(1 if wrong else 0)


def main():
    arguments = sys.argv[2:]
    match sys.argv[1]:
        case "routes":
            for version, count in zip((4, 6), map(int, arguments)):
                if count:
                    print("\n".join(routes(version, count)))
        case "addresses":
            for version, count in zip((4, 6), map(int, arguments)):
                print("\n".join(addresses(version, count, arguments[2])))
        case "hear":
            hear(*arguments)
        case "send":
            send(*arguments[:3], int(arguments[4]))
        case "judge":
            judge(*arguments[:6], [heard.split("=") for heard in arguments[6:]])


if __name__ == "__main__":
    main()
