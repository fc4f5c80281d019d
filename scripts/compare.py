#!/usr/bin/env python3
"""Compares what forwarding costs in this tree with what it cost in another commit.

  scripts/compare.py BASE [WORKLOAD …]     BASE: a commit; default: all that forward, and those
                                           of a shield and a Grantor, where BASE has them
  scripts/compare.py --bounds [WORKLOAD …]
                                           counts instructions of this tree alone, against the
                                           bounds that stand below (MOST): of all that have one

  --cycles ROUNDS     rounds of turns (default 300; 0: instructions alone)
  --no-instructions   turns alone

Instructions of a packet are counted by callgrind: the difference of two amounts of
work. Cycles are measured in turns: both programs are bound to one core, one of them
works at a time (A B, B A, …), and the ratio of each pair counts. Both are started anew
several times; the interval is of the median of the starts' ratios, by resampling, at
95 %. Exit status 1 where the instructions exceed those of BASE by more than 1 %, or the
interval's upper end lies above 1.02; 2 where nothing can be compared.

A lookup takes no turns: scripts/compare.py BASE --cycles 0 "lookup-ipv4 rutter4".

Both sides are built from their own sources by the profile `count`, with BASE in a
worktree that is removed at the end (its build folder is kept beside the usual one).
"""

import argparse
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile

SOME, MORE = 49_152, 147_456  # packets; multiples of the workloads' bursts
TURN = 200_000  # packets of one turn
WORKLOAD = "crates/lab/examples/workload.rs"  # the program, built from both sides
STARTS = 12  # where a table's pages come to lie is worth 5 %, and is drawn anew at each start
TAKES_TURNS = ("forward-", "shield-", "grantor-")
MOST_INSTRUCTIONS, MOST_CYCLES = 1.01, 1.02
# Instructions a packet at most (x86-64, Rust 1.95): of a whole path, the generator's 35 to 65 in those of a shield.
# Those of a Grantor were 393 and 435 when the bounds were set.
MOST = {
    "forward-ipv4": 256,
    "forward-ipv4-ecmp": 323,
    "forward-ipv6": 290,
    "forward-ipv6-ecmp": 370,
    "forward-switch": 280,
    "shield-request": 830,
    "shield-declined": 556,
    "shield-granted": 783,
    "shield-here-request": 845,
    "shield-here-granted": 820,
    "grantor-ipv4": 435,
    "grantor-ipv6": 480,
}


def main():
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("base", nargs="?")
    options.add_argument("--bounds", action="store_true")
    options.add_argument("workloads", nargs="*")
    options.add_argument("--cycles", type=int, default=300, metavar="ROUNDS")
    options.add_argument("--no-instructions", action="store_true")
    options = options.parse_args()
    if options.bounds:
        return bounds([options.base] * bool(options.base) + options.workloads)
    if options.base is None:
        fail("which commit? scripts/compare.py BASE, or --bounds")
    if options.no_instructions and options.cycles <= 0:
        fail("neither instructions nor cycles: there is nothing to compare")
    if not options.no_instructions and shutil.which("valgrind") is None:
        fail("valgrind is not installed: install it (apt-get install valgrind), or compare --no-instructions")
    root = run(["git", "rev-parse", "--show-toplevel"])
    target = os.path.abspath(os.environ.get("CARGO_TARGET_DIR", os.path.join(root, "target")))
    base = run(["git", "-C", root, "rev-parse", "--short", options.base + "^{commit}"])
    can_compare(root, base, options)
    ours = build(root, target)
    with tempfile.TemporaryDirectory() as folder:
        tree = os.path.join(folder, "base")
        subprocess.run(["git", "-C", root, "worktree", "add", "-q", "--detach", tree, base], check=True)
        try:
            theirs = build(tree, os.path.join(target, "base"))
            kept = os.path.join(folder, "workload")
            shutil.copy(theirs, kept)
        finally:
            subprocess.run(["git", "-C", root, "worktree", "remove", "--force", tree], check=True)
        names = options.workloads or usual(kept, ours)
        check_names(names, {base: kept, "this tree": ours}, options)
        print(f"{'':24}  instructions a packet          cycles a packet, in turns")
        print(f"{'workload':24} {base:>9} {'now':>9} {'ratio':>7} {base:>9} {'now':>9}  ratio (95 %)")
        within = [compare(name, kept, ours, options) for name in names]
    return 0 if all(within) else 1


def bounds(names):
    """Counts `names`, or all that have a bound, in this tree."""
    if shutil.which("valgrind") is None:
        fail("valgrind is not installed: install it (apt-get install valgrind)")
    for name in names:
        if name not in MOST:
            fail(f"`{name}` has no bound; these have: {', '.join(MOST)}")
    root = run(["git", "rev-parse", "--show-toplevel"])
    workload = build(root, os.path.abspath(os.environ.get("CARGO_TARGET_DIR", os.path.join(root, "target"))))
    beyond = []
    print(f"{'workload':24} {'now':>9} {'at most':>9}  instructions a packet")
    for name in names or MOST:
        now = instructions(workload, name)
        within = now <= MOST[name]
        beyond += [] if within else [name]
        print(f"{name:24} {now:9.1f} {MOST[name]:9}" + ("" if within else "  TOO MUCH"), flush=True)
    return 1 if beyond else 0


def fail(reason):
    print(f"compare.py: {reason}", file=sys.stderr)
    sys.exit(2)


def run(command):
    """What a command prints."""
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE)
    if done.returncode != 0:
        fail(f"`{' '.join(command)}` ended with status {done.returncode}")
    return done.stdout.strip()


def can_compare(root, base, options):
    """Says so where BASE is older than the program that does the work."""
    source = subprocess.run(["git", "-C", root, "show", f"{base}:{WORKLOAD}"],
                            text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    needed = '["turns", ' if options.cycles > 0 else "fn main"
    if source.returncode == 0 and needed in source.stdout:
        return
    since = run(["git", "-C", root, "log", "--reverse", "--format=%h", "-S" + needed, "--", WORKLOAD])
    since = since.split("\n")[0]
    hint = "; with --cycles 0 an older one serves" if source.returncode == 0 else ""
    fail(f"{base} lacks the program {WORKLOAD} as it is needed: no base before {since} can be compared{hint}")


def usual(theirs, ours):
    known = run([theirs, "list"]).split("\n")
    names = [name for name in run([ours, "list"]).split("\n") if name.startswith(TAKES_TURNS)]
    return [name for name in names if name in known or name.startswith("forward-")]


def check_names(names, programs, options):
    for side, program in programs.items():
        known = run([program, "list"]).split("\n")
        for name in names:
            if name not in known:
                fail(f"{side} has no workload `{name}`; it has: {', '.join(known)}")
    without_turns = [name for name in names if not name.startswith(TAKES_TURNS)]
    if without_turns and options.cycles > 0:
        fail(f"`{without_turns[0]}` takes no turns: add --cycles 0")


def build(tree, target):
    command = [os.environ.get("CARGO", "cargo"), "build", "--locked", "--quiet", "--profile", "count",
               "-p", "lab", "--example", "workload"]
    if subprocess.run(command, cwd=tree, env={**os.environ, "CARGO_TARGET_DIR": target}).returncode != 0:
        fail(f"the workload program of {tree} cannot be built")
    return os.path.join(target, "count", "examples", "workload")


def compare(name, theirs, ours, options):
    line, within = f"{name:24}", True
    if options.no_instructions or name.endswith("-large"):  # a large table takes callgrind minutes
        line += f" {'':>27}"
    else:
        before, now = instructions(theirs, name), instructions(ours, name)
        within = now <= before * MOST_INSTRUCTIONS
        line += f" {before:9.1f} {now:9.1f} {now / before:7.4f}"
    if options.cycles > 0:
        before, now, ratios = turns(name, theirs, ours, options.cycles)
        low, high = interval(ratios)
        within = within and high <= MOST_CYCLES
        line += f" {before:9.1f} {now:9.1f}  {statistics.median(ratios):.4f} ({low:.4f} to {high:.4f})"
    print(line + ("" if within else "  TOO MUCH"), flush=True)
    return within


def instructions(workload, name):
    def count(packets):
        command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", workload, name, str(packets)]
        done = subprocess.run(command, text=True, stderr=subprocess.STDOUT, stdout=subprocess.PIPE)
        collected = [line for line in done.stdout.split("\n") if "Collected" in line]
        if done.returncode != 0 or not collected:
            fail(f"{name}: callgrind ended with status {done.returncode}\n{done.stdout}")
        return int(collected[0].split()[-1])
    return (count(MORE) - count(SOME)) / (MORE - SOME)


def turns(name, theirs, ours, rounds):
    """Median cycles a packet of both, and of each start the median ratio of its pairs."""
    cycles, ratios = ([], []), []
    for started in range(STARTS):
        now = ([], [])
        order = ((0, theirs), (1, ours))[:: 1 if started % 2 == 0 else -1]
        sides = {}
        try:
            for side, workload in order:
                sides[side] = start(workload, name)
            for side in (0, 1, 0, 1):
                turn(sides[side], name)  # to warm up
            for n in range(max(1, rounds // STARTS)):
                for side in ((0, 1), (1, 0))[n % 2]:
                    now[side].append(turn(sides[side], name))
            for side in sides.values():
                side.stdin.close()
                if side.wait() != 0:
                    died(side, name)
        finally:
            for side in sides.values():
                side.kill()  # one that has ended is left alone
        ratios.append(statistics.median(mine / before for before, mine in zip(*now)))
        cycles[0].extend(now[0])
        cycles[1].extend(now[1])
    return statistics.median(cycles[0]), statistics.median(cycles[1]), ratios


def start(workload, name):
    side = subprocess.Popen([workload, "turns", name], text=True, bufsize=1,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    if side.stdout.readline().strip() != "ready":
        died(side, name)
    return side


def turn(side, name):
    try:
        side.stdin.write(f"{TURN}\n")
        nanoseconds, ghz = side.stdout.readline().split()
    except (BrokenPipeError, ValueError):
        died(side, name)
    return int(nanoseconds) * float(ghz) / TURN


def died(side, name):
    side.kill()
    fail(f"{name}: the program {side.args[0]} died, with status {side.wait()}; its last words are above")


def interval(ratios, times=2000):
    """95 % of the medians of resampled ratios."""
    draw = random.Random(1)
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(times))
    return medians[int(0.025 * times)], medians[int(0.975 * times) - 1]


if __name__ == "__main__":
    sys.exit(main())
