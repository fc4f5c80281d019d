#!/usr/bin/env python3
"""What a lookup of each engine and rival is made of, in instructions.

A process of its own builds a table and looks addresses up under callgrind, once with
lookups and once without; the difference, by function, is what lookups take. Bursts of 256,
as the lab's. Parts of less than 3 % of an engine's instructions are left out. valgrind has
no AVX-512: engines use AVX2 or less, and `isa` is what each reports that it used. `needless`
is what zeroes and copies memory, allocates or frees: no lookup needs it.

  scripts/profile.py [ENGINE ...]            tables in Markdown, as in docs/lab/PROFILES.md
  scripts/profile.py --write [ENGINE ...]    writes that page, or these rows of it
  scripts/profile.py --check [ENGINE ...]    counts these, or all but DPDK's, and compares them with
                                             the page: it must have all that are counted, the same
                                             counts within 1 % and the rounding, and the same share
                                             of what is needless

  --lab FILE    the program: cargo build --profile count -p lab --features lab/rivals

Exit status 1 where more than 3 % of what an engine does is needless; with --check, where the page is old.
"""

import argparse
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile

LOOKUPS = 100_000
# A title, the table, and who takes part.
PARTS = (
    ("IPv4", "internet:20000",
     "rutter4 dir-24-8 dxr dxr:k=18 poptrie tree-bitmap lulea lc-trie bsd-radix sail-b sail-u sail-m sail-l miht bloom-naive pbf "
     "bloom-baseline bloomfwd rte_fib-2b rte_fib-4b rte_lpm crate-poptrie crate-prefix-trie crate-treebitmap"),
    ("IPv6", "internet6:20000",
     "rutter6 planb poptrie tree-bitmap lc-trie bsd-radix sail6 sail6-hybrid vpp-hash vpp-bloom vpp-trie cuvpp miht6 bloomfwd6 "
     "rte_fib6 rte_lpm6 crate-poptrie crate-prefix-trie crate-treebitmap"),
    ("Exact match", "stations:20000",
     "mac-table cuckoo:batch=14 cuckoo rte_hash std-hashmap hashbrown-fx dashmap-fx papaya-fx tbb-hash tbb-unordered std-unordered "
     "google-dense google-sparse absl-flat boost-flat"),
    ("Flow tables, flows that are there", "flows:20000",
     "flow-table cuckoo-flow hopscotch linear quadratic double-hash chaining"),
    ("Flow tables, new flows into a full table", "flood:20000",
     "flow-table cuckoo-flow hopscotch linear quadratic double-hash chaining"),
)
# What no lookup needs: memory zeroed, copied, taken and given back. The arenas of two crates are in
# `allocator.rs`.
NEEDLESS = re.compile(r"mem(set|cpy|move)|alloc(?!ator\.rs)|\bfree\b|_int_free|\bcfree\b|sbrk|operator (new|delete)")
MOST_NEEDLESS = 0.03
PATIENCE_S = 900
# glibc clears and copies some kilobytes by one instruction for each byte in callgrind's count.
TUNABLES = "glibc.cpu.x86_rep_stosb_threshold=100000000:glibc.cpu.x86_rep_movsb_threshold=100000000"
# Left out by --check unless named: five minutes each, and no code of ours.
SLOW = re.compile("rte_")
MOST_OFF = 0.01  # as scripts/compare.py's
JOBS = os.cpu_count() or 1
PAGE = "docs/lab/PROFILES.md"
MARK = "<!-- From here on scripts/profile.py --write. -->\n"


def count(lab, engine, table, lookups):
    """Instructions by function, and by which instruction set; or nothing, and the reason."""
    with tempfile.NamedTemporaryFile(suffix=".callgrind") as out:
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out.name}", lab, "drive", engine,
                   "--table", table, "--count", str(lookups)]
        environment = {**os.environ, "GLIBC_TUNABLES": TUNABLES}
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  env=environment, timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            return None, "not built within a quarter of an hour under callgrind"
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
    isa = re.search(r"^isa: (\S+)$", done.stdout, re.MULTILINE)
    return found, isa[1] if isa else "–"


def short(name):
    """The file and the function of `PATH:FUNCTION`: what is inlined keeps its file."""
    path, _, function = name.partition(":")
    while re.search(r"<[^<>]*>", function):
        function = re.sub(r"<[^<>]*>", "", function)
    # C++ names have their arguments behind them.
    function = re.sub(r"(?<=.)\(.*|'\d+$", "", function)
    function = function.split("::")[-1] or "?"
    return f"{os.path.basename(path)} {function}"[:48]


def profile(lab, engine, table):
    """A row of the table, and the share that is needless."""
    (some, isa), (none, _) = (count(lab, engine, table, n) for n in (LOOKUPS, 0))
    if some is None or none is None:
        return f"| `{engine}` | – | – | – | {isa} |", 0
    each = {name: (n - none.get(name, 0)) / LOOKUPS for name, n in some.items()}
    total = sum(n for n in each.values() if n > 0)
    parts = {}
    for name, n in each.items():
        parts[short(name)] = parts.get(short(name), 0) + n
    needless = sum(n for name, n in parts.items() if n > 0 and NEEDLESS.search(name)) / total
    parts = sorted(((n, name) for name, n in parts.items() if n >= 0.03 * total), reverse=True)
    text = ", ".join(f"{n / total * 100:.0f} % `{name}`" for n, name in parts[:6])
    return f"| `{engine}` | {isa} | {total:.0f} | {needless * 100:.0f} % | {text} |", needless


def written():
    """The rows of the page, by heading and engine."""
    rows, heading = {}, None
    with open(PAGE) as page:
        for line in page:
            heading = line.strip() if line.startswith("## ") else heading
            if match := re.match(r"\| `([^`]+)` \|", line):
                rows[heading, match[1]] = line.strip()
    return rows


def check(lab, engines):
    """What is old of the page: a line each."""
    rows, old = written(), []
    all_rows = [(f"## {title}: `{table}`", table, engine) for title, table, names in PARTS for engine in names.split()]
    if unknown := set(engines) - {engine for _, _, engine in all_rows}:
        sys.exit(f"no such engine: {' '.join(sorted(unknown))}")
    known = {(heading, engine) for heading, _, engine in all_rows}
    old += [f"{engine} is not in the page ({heading[3:]})" for heading, engine in sorted(known - rows.keys())]
    old += [f"{engine} is in the page alone ({heading[3:]})" for heading, engine in sorted(rows.keys() - known)]
    asked = [(heading, table, engine) for heading, table, engine in all_rows if (heading, engine) in rows
             and (engine in engines if engines else not SLOW.match(engine))]

    def one(row):
        heading, table, engine = row
        row, needless = profile(lab, engine, table)
        then, now = ([cell.strip() for cell in text.split("|")][2:5] for text in (rows[heading, engine], row))
        try:
            is_near = abs(int(now[1]) - int(then[1])) <= 1 + MOST_OFF * int(then[1])
        except ValueError:
            is_near = now[1] == then[1]
        is_same = is_near and now[0] == then[0]
        print(f"{engine:18} {table:20} page: {then[1]:>5} by {then[0]:9} now: {now[1]:>5} by {now[0]:9}"
              + ("" if is_same else "  OLD"), flush=True)
        known = int(then[2].split()[0]) / 100 if then[2].endswith("%") else 0
        if abs(needless - known) > 0.015:
            return f"{engine} of {table}: {needless * 100:.0f} % needless, {known * 100:.0f} % on the page"
        return None if is_same else f"{engine} of {table}"

    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        return old + [wrong for wrong in pool.map(one, asked) if wrong]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lab", default=os.path.join(os.environ.get("CARGO_TARGET_DIR", "target"), "count/rutter-lab"))
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("engines", nargs="*")
    options = parser.parse_args()
    if not os.path.exists(options.lab):
        sys.exit(f"{options.lab} is not there: cargo build --profile count -p lab --features lab/rivals, or --lab FILE")
    if options.check:
        old = check(options.lab, options.engines)
        sys.exit("not as the page: " + "; ".join(old) + f" (scripts/profile.py --write ENGINE …, {PAGE})" if old else 0)
    lines, gifts = [], []
    kept = written() if options.write and options.engines else {}

    def say(line):
        lines.append(line)
        print(line, flush=True)

    for title, table, engines in PARTS:
        heading = f"## {title}: `{table}`"

        def is_asked(engine):
            return not options.engines or engine in options.engines

        engines = [engine for engine in engines.split() if is_asked(engine) or (heading, engine) in kept]
        if not engines:
            continue
        say(heading + "\n")
        say("| engine | isa | instructions a lookup | needless | of them |\n|---|---|---|---|---|")

        def row_of(engine):
            return profile(options.lab, engine, table) if is_asked(engine) else (kept[heading, engine], 0)

        with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
            for engine, (row, needless) in zip(engines, pool.map(row_of, engines)):
                say(row)
                if needless > MOST_NEEDLESS:
                    gifts.append(f"{engine} of {title}: {needless * 100:.0f} %")
        say("")
    if options.write:
        with open(PAGE) as page:
            text = page.read().split(MARK)[0]
        with open(PAGE, "w") as page:
            page.write(text + MARK + "\n" + "\n".join(lines).rstrip() + "\n")
    if gifts:
        sys.exit("needless: " + ", ".join(gifts))


if __name__ == "__main__":
    main()
