#!/usr/bin/env python3
"""Fills the columns "reached" and "by" of the table in docs/lab/GOALS.md from the records, and the
column "here" of the table of the machine's limits.

    scripts/goals.py            write them
    scripts/goals.py --check    write nothing; fail where the page differs from the records

A figure is taken from a verdict (its n-th number) or from a row of a record. Rows are found by
the beginning of their first cell, in the order of the page. Of several figures "by" is the least.
"""

import argparse
import functools
import json
import math
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/lab/GOALS.md"
RECORDS = ROOT / "docs/lab/records"


@functools.cache
def record(name):
    return json.loads((RECORDS / f"{name.replace('/', '-')}.json").read_text())


def verdict(name, claim, n=0):
    """The n-th number of what was measured, of the only verdict whose claim has these words."""
    found = [v for v in record(name)["verdicts"] if all(part in v["claim"] for part in claim.split(" … "))]
    if len(found) != 1:
        sys.exit(f"{name}: {len(found)} verdicts with `{claim}`")
    return float(re.findall(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e-?\d+)?", found[0]["measured"])[n])


def words(name, claim):
    """The same, in words."""
    [found] = [v for v in record(name)["verdicts"] if claim in v["claim"]]
    return found["measured"]


def figure(name, figure, stat="median", **labels):
    """A figure of the only row with these labels."""
    found = [r for r in record(name)["rows"] if labels.items() <= r["labels"].items()]
    if len(found) != 1:
        sys.exit(f"{name}: {len(found)} rows with {labels}")
    return found[0]["figures"][figure][stat]


class Short(float):
    """Is written with three digits, where its place says nothing else."""

    def __format__(self, how):
        size = abs(self)
        how = how or (",.0f" if size >= 99.95 else ".1f" if size >= 9.995 else ".2f")
        return float(self).__format__(how).replace("-", "−")


def row(start, text, *goals):
    """A row: `text` with the values; a goal is (value, "≥" or "≤", goal), or a value alone."""
    values = [Short(goal[0]) for goal in goals]
    # A cost of nothing, or less, is as far below its goal as can be.
    under = lambda v, goal: goal / v if v > 0 else math.inf
    judged = (goal for goal in goals if len(goal) > 1)
    least = min((v / goal if op == "≥" else under(v, goal) for v, op, goal in judged), default=None)
    by = "" if least is None else "> 99" if least > 99 else f"{Short(least):.0f}" if least >= 9.995 else f"{least:.2f}"
    return start, text.format(*values), by


def over(values, goals, op="≥"):
    goals = goals if isinstance(goals, (list, tuple)) else [goals] * len(values)
    return [(value, op, goal) for value, goal in zip(values, goals)]


def under(values, goals):
    return over(values, goals, "≤")


def lookups4(table, prefix_goal, zipf_goal):
    of = lambda traffic, n=0: verdict("lpm/peers", f"{table}, {traffic} traffic: rutter4 … rte_fib-2b", n)
    rate = lambda traffic: (verdict("lpm/peers", f"{table}, {traffic} traffic: rutter4 … rte_fib-2b", -1),)
    return [
        row("random, over the best `rte_fib`", "{} × ({} M/s)", (of("random"), "≥", 3), rate("random")),
        row("prefix-based", "{} × ({})", (of("prefix"), "≥", prefix_goal), rate("prefix")),
        row("Zipf", "{} × ({})", (of("zipf"), "≥", zipf_goal), rate("zipf")),
    ]


def everywhere(table, engine):
    what = f"{table}: {engine} is faster than every other"
    worst = verdict("lpm/peers", what)
    failing = words("lpm/peers", what).split("; ")[1].replace(" fail", " rows")
    return row("faster than every other", "{} × at worst; " + failing, (worst, "≥", 1))


def size(table, engine, bytes_goal, update, build):
    of = lambda what: verdict("lpm/peers", f"{table}: {engine} {what}")
    rows = [
        row("bytes a prefix", "{}", (of("bytes_per_prefix"), "≤", bytes_goal)),
        row("update beside a reader", "{} µs", (of("update_beside_reader_us"), "≤", update)),
    ]
    if engine == "rutter4" and build:
        rows.append(row("update of the default", "{} µs", (of("update_default_us"), "≤", 1)))
    if build:
        seconds = (of("build_s"), "≤", build)
        milliseconds = (1000 * of("build_s"), "≤", 1000 * build)
        rows.append(row("build", "{:.3f} s", seconds) if engine == "rutter4" else row("build", "{} ms", milliseconds))
    return rows


def lookups6(table, fib_prefix, fib_zipf, last):
    of = lambda claim: verdict("lpm/peers", f"{table}, {claim}")
    v = lambda traffic, rival, long="": of(f"{traffic} traffic{long}: rutter6 … × {rival}")
    long = ", long bursts"
    same = (fib_prefix, fib_zipf) == (5, 3)
    rows = [
        row("long bursts over `planb`", "{}, {} ×", *over([v("random", "planb", long), v("prefix", "planb", long)], 2.2)),
        row("the same, Zipf", "{} ×", (v("zipf", "planb", long), "≥", 2)),
    ]
    if same:
        rows.append(row("bursts of 256, random", "{}, {} ×", *over([v("random", "planb"), v("prefix", "planb")], 1.8)))
        fib = [v(traffic, "rte_fib6") for traffic in ("random", "prefix", "zipf")]
        rows.append(row("over `rte_fib6`", "{}, {}, {} ×", *over(fib, [5, 5, 3])))
    else:
        rows.append(row("bursts of 256, prefix-based", "{} ×", (v("prefix", "planb"), "≥", 1.8)))
        rows.append(row("over `rte_fib6` with AVX-512, random", "{} ×", (v("random", "rte_fib6"), "≥", 5)))
        fib = [v("prefix", "rte_fib6"), v("zipf", "rte_fib6")]
        rows.append(row("the same, prefix-based / Zipf", "{}, {} ×", *over(fib, [fib_prefix, fib_zipf])))
    rows += [
        row("over `poptrie`", "{}, {} ×", *over([v("random", "poptrie"), v("prefix", "poptrie")], 5)),
        row("the same, Zipf", "{} ×", (v("zipf", "poptrie"), "≥", 3)),
        everywhere(table, "rutter6"),
        *size(table, "rutter6", 16, 4, last),
    ]
    return rows


def lpm():
    usual, long4, long6 = "internet:1000000+200000", "internet:608000+200000,long=22", "internet6:200000,long=60"
    peers = lambda claim, n=0: verdict("lpm/peers", claim, n)
    bytes4, update4, default4, build4 = size(usual, "rutter4", 8, 1, 0.2)
    yield from lookups4(usual, 2, 1.1)
    yield from (bytes4, update4, default4, build4, everywhere(usual, "rutter4"))
    own = [peers(f"{usual}, {traffic} traffic: dir-24-8") for traffic in ("random", "prefix")]
    yield row("`dir-24-8`", "{}, {} ×", *over(own, 0.9))
    yield from lookups4(long4, 1.5, 1)
    yield row("prefix-based, over every other", "{} ×", (peers(f"{long4}, prefix traffic: rutter4 … all others"), "≥", 1))
    yield everywhere(long4, "rutter4")
    yield from size(long4, "rutter4", 8, 1.5, None)
    yield from lookups6(usual, 5, 3, 0.05)
    yield from lookups6(long4, 1.5, 1, None)
    yield from lookups6(long6, 1.5, 1, 0.05)
    yield row("`rutter4` keeps of its rate, from", "{}", (verdict("lpm/scale", "rutter4 keeps half"), "≥", 0.5))
    inter = [verdict("lpm/interleave", f"{how} … ipv6, generated, random") for how in ("group", "coroutines")]
    yield row("interleaved searches", "{}, {} ×", *over(inter, 2))
    bound = [verdict("lpm/bound", f"rutter6 does half … {traffic}, avx512") for traffic in ("random", "prefix", "zipf")]
    yield row("`rutter6` over its reads", "{}, {}, {} ×", *over(bound, 0.5))
    bulk = lambda form, where: figure("lpm/bulk", "addresses", family="ipv4", form=form, **{"from": where})
    both = lambda form: [bulk(form, "file"), bulk(form, "pipes")]
    yield row("text without prefixes", "{} / {}", *over(both("text, hops"), 10))
    yield row("text with prefixes", "{} / {}", *over(both("text, prefixes and hops"), 3))


def router():
    forward = "router/forward"
    of = lambda claim: verdict(forward, f"{claim}:")
    best = lambda variant, family="ipv4": figure(
        forward, "cycles", "best", family=family, prefixes="1000000", traffic="prefix", variant=variant
    )
    cycles = lambda start, claim, variant, goal, family="ipv4": row(
        start, "{}, {}", (of(f"{family}, {claim}"), "≤", goal), (best(variant, family),)
    )
    yield cycles("IPv4, `mem`, 16,000", "mem 16000", "mem 16000", 75)
    yield cycles("each packet by a multipath", "mem 16000 ecmp", "mem 16000 ecmp", 83)
    yield cycles("`net_null`", "null", "null", 95)
    yield cycles("`mem`, 128,000", "mem 128000", "mem 128000", 115)
    generator = best("mem 128000 io read fresh") - best("mem 128000 io read")
    fresh = of("ipv4, mem 128000 fresh")
    yield row("fresh destinations", "{}, {}", (fresh, "≤", 130), (best("mem 128000 fresh") - generator,))
    yield cycles("IPv6, `mem`", "mem 16000", "mem 16000", 120, "ipv6")
    small = [verdict("router/hugepages", f"{family}: without") for family in ("ipv4", "ipv6")]
    yield row("without hugepages", "{}, {} ×", *under(small, 1.05))
    updates = lambda n: [verdict("router/updates", f"{family} at {n} updates/s") for family in ("ipv4", "ipv6")]
    yield row("forwarding keeps at 10,000", "{:.3f}, {:.3f}", *over(updates(10000), 0.98))
    yield row("at 100,000", "{:.3f}, {:.3f}", *over(updates(100000), 0.95))
    ways = [f"{way} {family}" for family in ("ipv4", "ipv6") for way in ("burst", "dump")]
    converge = [verdict("router/converge", way) for way in ways]
    yield row("routes a second", "{:.3g} M, {:.3g} M; {:.3g} M, {:.3g} M", *over([routes / 1e6 for routes in converge], 0.2))
    memory = [verdict("router/memory", f"{family}: store and writer") for family in ("ipv4", "ipv6")]
    yield row("store and writer", "{} / {}", *under(memory, [24, 40]))
    scale = [verdict("router/scale", f"{family}: two workers") for family in ("ipv4", "ipv6")]
    yield row("two workers, IPv4", "{}, {} ×", *over(scale, 1.8))
    ports = lambda n: [verdict("router/ports", f"{size} bytes, {n} at once") for size in (60, 1514)]
    yield row("`packet:IFACE` over", "{}, {} ×", *over(ports(64), 1.3))
    yield row("the same, two at once", "{}, {} ×", *over(ports(2), 1.3))
    moved = [verdict("router/failover", f"{how}, 1000000 routes: all traffic") for how in ("second", "ecmp", "objects")]
    yield row("next best by another port", "{}, {}, {} ms", *under(moved, 10))


def exact():
    sizes = [996132, 63753417, 10**9]
    of = lambda size, claim: verdict("exact/peers", f"mac-table, {size} entries: … {claim}")
    each = lambda claim, goals, n=3, op="≥": over([of(size, claim) for size in sizes[:n]], goals, op)
    two, three = "{} / {} / – ×", "{} / {} / {}"
    plain = "without vector instructions, ≥ "
    # A claim about tables with vectors has nothing before its goal.
    bare = lambda claim, goal: over([of(size, f"entries: {claim}") for size in sizes[:2]], goal)
    yield row("lookups, M/s", three, *each("M lookups/s", [130, 88, 40]))
    yield row("over `rte_hash`", two, *bare("≥ 3 × rte_hash", 3))
    yield row("over the paper's table at its batch of 14", two, *bare("≥ 3 × the paper's", 3))
    yield row("over the paper's table at its best", two, *bare("≥ 2.2 × the paper's", 2.2))
    yield row("without vector instructions: over", two, *each(plain + "3 × rte_hash", 3, 2))
    scalar = [of(size, plain + goal) for size in sizes[:2] for goal in ("3 × the paper's", "2.2 × the paper's")]
    yield row("over the paper's table at its batch of 14 /", "{}, {} / {}, {} / – ×", *over(scalar, [3, 2.2] * 2))
    scalar = [of(7969170, plain + goal) for goal in ("3 × the paper's", "2.2 × the paper's")]
    yield row("the same at 7,969,170", "{}, {} ×", *over(scalar, [3, 2.2]))
    yield row("two threads", "{} / {} / {} ×", *each("two threads", [1.8, 1.6, 1.6]))
    yield row("500,000 updates/s", "{} / {} / – %", *each("500,000 updates/s", 6, 2, "≤"))
    yield row("half misses", "{} / {} / {} %", *each("half misses", 60))
    yield row("fill, M/s", three, *each("filled", [5, 5, 4]))
    size = lambda n: (figure("exact/peers", "bytes_per_entry", engine="mac-table", entries=str(n), isa="avx512"),)
    yield row("bytes an entry", three, *(size(n) for n in sizes))
    switch = "switch/forward"
    best = verdict(switch, "what the cycles at 1000000")
    yield row("cycles a frame", "{}, {}", (verdict(switch, "≤ 90 cycles"), "≤", 90), (best,))
    yield row("10⁹ stations", "{} ×", (verdict(switch, "10⁹ stations"), "≤", 2.5))


def shield():
    of = lambda name, claim, n=0: verdict(f"gatekeeper/{name}", claim, n)
    yield row("`fig4.6`", "{} ×", (of("fig4.6", "all of them"), "≥", 90))
    best = lambda name: figure(
        f"gatekeeper/{name}", "less_generator", "best", kind=name, flows="2^20", variant="gatekeeper"
    )
    yield row("`requests`, table full", "{}, {}", (of("requests", "2^20: 40 to"), "≤", 230), (best("requests"),))
    yield row("at 2^25 places", "{} ×", (of("requests", "2^25 places"), "≥", 0.6))
    yield row("two workers", "{} ×", (of("requests", "two workers"), "≥", 1.8))
    flows = lambda name, goals: under([of(name, f"{name}, 2^{bits}: 40") for bits in (16, 20)], goals)
    yield row("`declined`", "{} / {}", *flows("declined", 145))
    yield row("`granted`", "{} / {}", *flows("granted", [175, 220]))
    yield row("two workers", "{} ×", (of("granted", "two workers"), "≥", 1.8))
    yield row("`solicitor`", "{} / {}", *under([of("solicitor", "queue, one"), of("solicitor", "queue, all")], 25))
    yield row("the node", "{}", (of("solicitor", "node"), "≤", 25))
    yield row("`mixed`", "{} %", (of("mixed", "cost granted flows"), "≤", 5))
    yield row("`programs`: `granted`", "{} ns", (of("programs", "granted, compiled"), "≤", 15))
    yield row("a granted packet, compiled", "{} cycles", (of("programs", "a granted packet's way"), "≤", 45))
    of_program = lambda what, name, runs: figure("gatekeeper/programs", what, program=name, runs=runs)
    slow = of_program("ns", "granted", "interpreter")
    way = lambda runs: of_program("cycles", "granted, the whole way", runs)
    more = way("interpreter") - way("built in")
    yield row("any other program", "{} ns, {} cycles", (slow, "≤", 15), (more, "≤", 45))
    good = lambda claim, n=0: of("goodput", claim, n)
    yield row("`goodput`", "{} %", (good("UDP at 90 %"), "≤", 0.5))
    kept = [good(f"TCP at 80 % of {rate} Mbit/s") for rate in (1, 10, 100)]
    yield row("TCP at 80 %", "{} / {} / {} %", *over(kept, 95))
    granted = [good("new clients: median"), good("95 % of them within")]
    yield row("200 new clients", "{}, {} s", *under(granted, [1.5, 3.5]))
    changed = [abs(100 - good(f"leaves … TCP at {rate} Mbit/s")) for rate in (1, 10, 100)] + [good("and UDP loses")]
    yield row("a flood of declined", "{} / {} / {}, {} %", *under(changed, 2))
    fig47 = lambda claim: of("fig4.7", claim)
    yield row("`fig4.7`: new flows", "{} ns", (fig47("takes a new flow"), "≤", 51))
    yield row("at 2^25 places", "{} ×", (fig47("at 2^25 places it takes"), "≥", 0.6))
    yield row("new flows into a full table of 2^20 places, over", "{} ×", (fig47("as cuckoo hashing refuses"), "≥", 10))
    misses = [fig47(f"ours misses … [portable] … 2^{bits} places") for bits in (20, 25)]
    yield row("misses over Hopscotch", "{} / {} ×", *over(misses, 2))
    churn = [fig47(f"ours keeps up churn … {isa} … 2^25 places") for isa in ("[portable]", "by avx2")]
    yield row("churn over linear", "{} / {} ×", *over(churn, 2))
    here = [of("shield", "flood, 2^20"), of("shield", "granted, 2^20")]
    yield row("`shield`", "{} / {}", *under(here, [230, 220]))
    policies = lambda claim: of("policies", claim)
    yield row("`policies`", "{} / {} M/s", *over([policies("20 to 200 M"), policies("5 to 100 M")], [20, 5]))
    yield row("by batches, over", "{} ×", (policies("as many as one by one"), "≥", 3))
    rings = figure("gatekeeper/policies", "decisions", policy="usual, batched, processes: 1")
    yield "the same through the rings", f"{Short(rings)} M/s", "–"
    yield row("a lone packet by a process", "{} µs", (policies("a lone packet"), "≤", 50))
    forward = [verdict("grantor/forward", f"{family}: 5 to 60") for family in ("ipv4", "ipv6")]
    yield row("`grantor/forward`", "{} / {}", *under(forward, 60))
    flood = [verdict("grantor/flood", claim) for claim in ("takes in 10 million", "decides 0.9 million")]
    yield row("`grantor/flood`", "{} / {}", *over(flood, [10, 0.9]))
    yield row("the share of the highest", "{}", (verdict("grantor/flood", "of the highest"), "≥", 0.95))


def science():
    tail = [verdict("science/tails", f"p99 of a burst … [{engine}") for engine in ("rutter4", "rutter6")]
    yield row("p99 over the median", "{} / {} ×", *under(tail, 3))
    times = [
        verdict("science/tails", f"lengthen {part} by … [{engine}") for part in ("p50", "p99", "p99.9")
        for engine in ("rutter4", "rutter6")
    ]
    longest = max(0, (max(times) - 1) * 100)
    yield row("bursts of updates", "{} %", (longest, "≤", 50))
    keeps = lambda engine: min(
        float(re.search(r"\(([\d.]+) to", v["measured"]).group(1))
        for v in record("science/contended")["verdicts"] if v["claim"].startswith(f"{engine} keeps half")
    )
    yield row("`rutter4` / `rutter6` keep", "{} / {}", *over([keeps("rutter4"), keeps("rutter6")], 0.5))


def limits():
    """The column "here" of the table of the machine's limits."""
    def read(figure, size, pages="2 MB", stat="best"):
        found = [r for r in record("machine/limits")["rows"] if r["labels"] == {"bytes": str(size << 20), "pages": pages}]
        return f"{found[0]['figures'][figure][stat]:.0f}" if found else "–"

    rate = functools.partial(read, "rate_mps")
    small = "–".join(rate(size, "4 KB") for size in (256, 512))
    yield "independent random lines of 4 MB", rate(4)
    yield "of 8 MB", rate(8)
    yield "of 256 to 512 MB", f"{rate(256)}–{rate(512)} ({small} on small pages)"
    yield "of 2 GB", rate(2 << 10)
    yield "of 8 GB", rate(8 << 10)
    latency = functools.partial(read, "latency_ns", 256)
    yield "dependent read of 256 MB", f"{latency()}–{latency(stat='median')}"
    names = ("router/forward", *(f"gatekeeper/{kind}" for kind in ("requests", "declined", "granted", "mixed")))
    rows = (r for name in names for r in record(name)["rows"] if r["labels"].get("variant") == "testpmd mac")
    cycles = [r["figures"]["cycles"] for r in rows]
    yield "`dpdk-testpmd`", f"{min(c['best'] for c in cycles):.0f}–{max(c['median'] for c in cycles):.0f}"


ROWS = (lpm, router, exact, shield, science)
# Rows of experiments that ran on another machine, or of scripts that keep no record, are left alone.
KEPT = ("a lone packet, later than by polling", "four idle ports")


def filled(page):
    """The page, its rows filled."""
    lines = page.splitlines()
    for start, here in limits():
        i = next((i for i, line in enumerate(lines) if line.startswith(f"| {start}")), None)
        if i is None:
            sys.exit(f"no row of the limits begins with `{start}`")
        lines[i] = " | ".join([*lines[i].split(" | ")[:2], f"{here} |"])
    wanted, at = [row for part in ROWS for row in part()], 0
    for i, line in enumerate(lines):
        if at == len(wanted):
            break
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        start, reached, by = wanted[at]
        if len(cells) != 5 or cells[2] in ("", "reached", "---") or cells[0].startswith(KEPT):
            continue
        if not cells[0].startswith(start):
            sys.exit(f"line {i + 1}: `{cells[0]}` is not `{start}`")
        cells[2:4] = reached, by
        if by.startswith("0.") and not cells[4]:
            sys.exit(f"line {i + 1}: nothing says why `{cells[0]}` is below its goal")
        lines[i] = "".join(f"| {cell} " if cell else "| " for cell in cells) + "|"
        at += 1
    if at < len(wanted):
        sys.exit(f"no row begins with `{wanted[at][0]}`")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail where the page differs")
    check = parser.parse_args().check
    page = PAGE.read_text()
    new = filled(page)
    if not check:
        PAGE.write_text(new)
    elif new != page:
        old = page.splitlines()
        lines = [f"{i + 1}: {b}" for i, (a, b) in enumerate(zip(old, new.splitlines())) if a != b]
        sys.exit("docs/lab/GOALS.md differs from the records; scripts/goals.py writes it anew:\n" + "\n".join(lines))


if __name__ == "__main__":
    main()
