#!/usr/bin/env python3
"""What a lookup of each engine is made of, in instructions.

A process of its own builds a table and looks addresses up under callgrind, once with
lookups and once without; the difference, by function, is what lookups take. Bursts of 256,
as the lab's. Parts of less than 3 % of an engine's instructions are left out. valgrind has no AVX-512: engines use AVX2 or less.

  scripts/profile.py --lab target/release/rutter-lab [ENGINE ...]     a table in Markdown
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile

ENGINES4 = "bsd-radix dir-24-8 dxr lc-trie lulea miht poptrie rutter4 sail-b sail-l sail-m sail-u " \
    "tree-bitmap bloom-naive pbf bloom-baseline bloomfwd".split()
ENGINES6 = "planb rutter6 sail6 sail6-hybrid vpp-hash vpp-bloom vpp-trie cuvpp bloomfwd6 miht6".split()
TABLES = {4: "internet:20000", 6: "internet6:20000"}
LOOKUPS = 100_000


def count(lab, engine, table, lookups):
    """Instructions by function."""
    with tempfile.NamedTemporaryFile(suffix=".callgrind") as out:
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out.name}", lab, "drive", engine,
                   "--table", table, "--count", str(lookups)]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            lines = done.stdout.strip().splitlines()
            return None, lines[-1] if lines else "no word"
        shown = subprocess.run(["callgrind_annotate", "--threshold=100", "--auto=no", out.name], check=True,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    found = {}
    for line in shown.splitlines():
        match = re.match(r"\s*([\d,]+) \([^)]*\)\s+(.*?)(?: \[[^\]]*\])?$", line)
        if match and "PROGRAM TOTALS" not in line:
            name = match[2]
            found[name] = found.get(name, 0) + int(match[1].replace(",", ""))
    return found, None


def short(name):
    """The file and the function of `PATH:FUNCTION`: what is inlined keeps its file."""
    path, _, function = name.partition(":")
    while re.search(r"<[^<>]*>", function):
        function = re.sub(r"<[^<>]*>", "", function)
    function = re.sub(r"'\d+$", "", function.split("::")[-1]) or "?"
    return f"{os.path.basename(path)} {function}"[:48]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lab", default="target/release/rutter-lab")
    parser.add_argument("engines", nargs="*")
    options = parser.parse_args()
    if not os.path.exists(options.lab):
        sys.exit(f"{options.lab} is not there: make lab, or --lab FILE")
    print("| engine | instructions a lookup | of them |\n|---|---|---|")
    for family, engines in ((4, ENGINES4), (6, ENGINES6)):
        for engine in engines:
            if options.engines and engine not in options.engines:
                continue
            (some, wrong), (none, _) = (count(options.lab, engine, TABLES[family], n) for n in (LOOKUPS, 0))
            if some is None or none is None:
                print(f"| `{engine}` | – | {wrong} |", flush=True)
                continue
            each = {name: (n - none.get(name, 0)) / LOOKUPS for name, n in some.items()}
            total = sum(n for n in each.values() if n > 0)
            parts = {}
            for name, n in each.items():
                parts[short(name)] = parts.get(short(name), 0) + n
            parts = sorted(((n, name) for name, n in parts.items() if n >= 0.03 * total), reverse=True)
            text = ", ".join(f"{n / total * 100:.0f} % `{name}`" for n, name in parts[:6])
            print(f"| `{engine}` | {total:.0f} | {text} |", flush=True)


if __name__ == "__main__":
    main()
