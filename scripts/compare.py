#!/usr/bin/env python3
"""Compares what forwarding costs in this tree with what it cost in another commit.

  scripts/compare.py BASE [WORKLOAD …]     BASE: a commit; default: all workloads
  --cycles ROUNDS     rounds of turns (default 300; 0: instructions alone)
  --no-instructions   turns alone

Instructions of a packet are counted by callgrind: the difference of two amounts of
work. Cycles are measured in turns: both programs are bound to one core, one of them
works at a time (A B, B A, …), and the ratio of each pair counts. Both are started anew
several times; the interval is of the median of the starts' ratios, by resampling, at
95 %. Exit status 1 where the instructions exceed those of BASE by more than 1 %, or the
interval's upper end lies above 1.02.

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

SOME, MORE = 49_152, 147_456  # packets; as scripts/instructions.sh
TURN = 200_000  # packets of one turn
STARTS = 12  # where a table's pages come to lie is worth 5 %, and is drawn anew at each start
MOST_INSTRUCTIONS, MOST_CYCLES = 1.01, 1.02


def main():
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("base")
    options.add_argument("workloads", nargs="*")
    options.add_argument("--cycles", type=int, default=300, metavar="ROUNDS")
    options.add_argument("--no-instructions", action="store_true")
    options = options.parse_args()
    root = run(["git", "rev-parse", "--show-toplevel"])
    target = os.path.abspath(os.environ.get("CARGO_TARGET_DIR", os.path.join(root, "target")))
    base = run(["git", "-C", root, "rev-parse", "--short", options.base + "^{commit}"])
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
        names = options.workloads or [n for n in run([ours, "list"]).split("\n") if n.startswith("forward-")]
        print(f"{'':24}  instructions a packet          cycles a packet, in turns")
        print(f"{'workload':24} {base:>9} {'now':>9} {'ratio':>7} {base:>9} {'now':>9}  ratio (95 %)")
        within = [compare(name, kept, ours, options) for name in names]
    return 0 if all(within) else 1


def run(command):
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout.strip()


def build(tree, target):
    command = [os.environ.get("CARGO", "cargo"), "build", "--locked", "--quiet", "--profile", "count",
               "-p", "lab", "--example", "workload"]
    subprocess.run(command, check=True, cwd=tree, env={**os.environ, "CARGO_TARGET_DIR": target})
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
        out = subprocess.run(command, check=True, text=True, stderr=subprocess.STDOUT, stdout=subprocess.PIPE).stdout
        return int(next(l for l in out.split("\n") if "Collected" in l).split()[-1])
    return (count(MORE) - count(SOME)) / (MORE - SOME)


def turns(name, theirs, ours, rounds):
    """Median cycles a packet of both, and of each start the median ratio of its pairs."""
    cycles, ratios = ([], []), []
    for started in range(STARTS):
        now = ([], [])
        order = ((0, theirs), (1, ours))[:: 1 if started % 2 == 0 else -1]
        sides = dict((side, start(workload, name)) for side, workload in order)
        for side in (0, 1, 0, 1):
            turn(sides[side])  # to warm up
        for n in range(max(1, rounds // STARTS)):
            for side in ((0, 1), (1, 0))[n % 2]:
                now[side].append(turn(sides[side]))
        for side in sides.values():
            side.stdin.close()
            if side.wait() != 0:
                sys.exit(f"{name}: the workload failed")
        ratios.append(statistics.median(mine / before for before, mine in zip(*now)))
        cycles[0].extend(now[0])
        cycles[1].extend(now[1])
    return statistics.median(cycles[0]), statistics.median(cycles[1]), ratios


def start(workload, name):
    side = subprocess.Popen([workload, "turns", name], text=True, bufsize=1, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    if side.stdout.readline().strip() != "ready":
        sys.exit(f"{name}: the workload did not start")
    return side


def turn(side):
    side.stdin.write(f"{TURN}\n")
    nanoseconds, ghz = side.stdout.readline().split()
    return int(nanoseconds) * float(ghz) / TURN


def interval(ratios, times=2000):
    """95 % of the medians of resampled ratios."""
    draw = random.Random(1)
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(times))
    return medians[int(0.025 * times)], medians[int(0.975 * times) - 1]


if __name__ == "__main__":
    sys.exit(main())
