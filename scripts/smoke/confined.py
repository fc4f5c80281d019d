"""Runs a command as packaging/rutter.service would, without systemd.

    confined.py UNIT WRITABLE COMMAND …

Of the unit: capabilities, system calls, address families, no new privileges, a file system
to read but for the folder WRITABLE. A call that the unit does not allow kills the process,
where systemd would answer EPERM: nothing is to depend on such an answer but what is in
TRIED, which is answered so here, too.
Exits with 77, and why, where the limits cannot be set up here.
"""

import ctypes
import os
import platform
import re
import struct
import subprocess
import sys

LIBC = ctypes.CDLL(None, use_errno=True)
ALLOW, KILL, EPERM, EAFNOSUPPORT = 0x7FFF0000, 0x80000000, 0x00050000 | 1, 0x00050000 | 97
FAMILIES = {"AF_UNIX": 1, "AF_INET": 2, "AF_INET6": 10, "AF_NETLINK": 16, "AF_PACKET": 17, "AF_XDP": 44}
CAPABILITIES = {"CAP_NET_ADMIN": 12, "CAP_NET_RAW": 13}
TRIED = ["iopl"]  # DPDK, for old virtio devices: goes on without
NUMBERS = "/usr/include/x86_64-linux-gnu/asm/unistd_64.h"


def skip(why):
    print(f"skip: {why}", flush=True)
    sys.exit(77)


def must(result, what):
    if result != 0:
        sys.exit(f"{what}: {os.strerror(ctypes.get_errno())}")


def words(unit, key):
    """The words of all lines `key=` of the unit."""
    lines = [line.split("=", 1)[1] for line in unit.splitlines() if line.startswith(key + "=")]
    return " ".join(lines).split()


def system_calls(names):
    """The numbers of system calls and of systemd's groups of them."""
    listed = subprocess.run(["systemd-analyze", "syscall-filter"], capture_output=True, text=True)
    groups, group = {}, None
    for line in listed.stdout.splitlines():
        line = re.sub(r"\x1b\[[0-9;]*m", "", line)
        if line.startswith("@"):
            group = groups.setdefault(line.strip(), [])
        elif group is not None and line.strip() and not line.strip().startswith("#"):
            group.append(line.strip())
    numbers = dict(re.findall(r"#define __NR_(\w+) (\d+)", open(NUMBERS).read()))
    found, waiting, seen = set(), list(names), set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        if name.startswith("@"):
            waiting += groups[name]
        elif name in numbers:  # others are of other machines
            found.add(int(numbers[name]))
    return found


def program(calls, tried, families, socket=41):
    """A filter of the kernel's (`seccomp(2)`)."""
    load, equal, answer = 0x20, 0x15, 0x06
    code = [(load, 0, 0, 0)]
    for call in sorted(calls - {socket}):
        code += [(equal, 0, 1, call), (answer, 0, 0, ALLOW)]
    for call in sorted(tried):
        code += [(equal, 0, 1, call), (answer, 0, 0, EPERM)]
    code += [(equal, 1, 0, socket), (answer, 0, 0, KILL), (load, 0, 0, 16)]
    for family in families:
        code += [(equal, 0, 1, family), (answer, 0, 0, ALLOW)]
    code.append((answer, 0, 0, EAFNOSUPPORT))
    return len(code), b"".join(struct.pack("<HBBI", *one) for one in code)


def confine(unit, writable):
    if platform.machine() != "x86_64" or not os.path.exists(NUMBERS):
        skip(f"no {NUMBERS}")
    try:
        calls = system_calls(words(unit, "SystemCallFilter"))
    except FileNotFoundError:
        skip("systemd-analyze is not installed")
    families = [FAMILIES[name] for name in words(unit, "RestrictAddressFamilies")]
    keep = [CAPABILITIES[name] for name in words(unit, "CapabilityBoundingSet")]

    # ProtectSystem=strict, ReadOnlyPaths=/sys.
    new_mounts, private, bind, again = 0x20000, 0x44000, 0x1000, 0x1021
    must(LIBC.unshare(new_mounts), "unshare")
    must(LIBC.mount(b"none", b"/", None, private, None), "private mounts")
    path = writable.encode()
    must(LIBC.mount(path, path, None, bind, None), "bind")
    must(LIBC.mount(b"none", b"/", None, again, None), "read-only /")
    must(LIBC.mount(b"none", b"/sys", None, again, None), "read-only /sys")

    drop_from_bounding_set, no_new_privileges, seccomp, by_program = 24, 38, 22, 2
    for capability in range(64):
        if capability not in keep and LIBC.prctl(drop_from_bounding_set, capability, 0, 0, 0) != 0:
            break  # the kernel knows no more
    must(LIBC.prctl(no_new_privileges, 1, 0, 0, 0), "no new privileges")
    length, code = program(calls, system_calls(TRIED), families)
    buffer = ctypes.create_string_buffer(code, len(code))
    pair = struct.pack("HxxxxxxQ", length, ctypes.addressof(buffer))
    must(LIBC.prctl(seccomp, by_program, pair, 0, 0), "seccomp")


confine(open(sys.argv[1]).read(), sys.argv[2])
os.execv(sys.argv[3], sys.argv[3:])
