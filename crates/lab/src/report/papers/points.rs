//! The points themselves, paper by paper.

use super::{Measured, Point};

pub(super) const MEASURED: &[Measured] = &[
    Measured {
        experiment: "dxr/table1",
        workload: "three snapshots of routeviews.org of April 2012: LINX (417,523 prefixes, 213 \
            next hops), U. Oregon (421,059, 38), PAIX (412,568, 80)",
        points: &[
            dxr1("bytes_per_prefix", LINX, "D16R", 800_672.0 / 417_523.0),
            dxr1("bytes_per_prefix", LINX, "D18R", 1_548_700.0 / 417_523.0),
            dxr1("bytes_per_prefix", OREGON, "D16R", 827_204.0 / 421_059.0),
            dxr1("bytes_per_prefix", OREGON, "D18R", 1_574_872.0 / 421_059.0),
            dxr1("bytes_per_prefix", PAIX, "D16R", 765_752.0 / 412_568.0),
            dxr1("bytes_per_prefix", PAIX, "D18R", 1_522_992.0 / 412_568.0),
            dxr1("chunks", LINX, "D16R", 12_935.0),
            dxr1("chunks", LINX, "D18R", 25_494.0),
            dxr1("chunks", OREGON, "D16R", 13_627.0),
            dxr1("chunks", OREGON, "D18R", 27_251.0),
            dxr1("chunks", PAIX, "D16R", 13_082.0),
            dxr1("chunks", PAIX, "D18R", 24_801.0),
            dxr1("build_s", LINX, "D16R", 0.096_81),
            dxr1("build_s", LINX, "D18R", 0.220_52),
            dxr1("build_s", OREGON, "D16R", 0.098_91),
            dxr1("build_s", OREGON, "D18R", 0.230_99),
            dxr1("build_s", PAIX, "D16R", 0.096_28),
            dxr1("build_s", PAIX, "D18R", 0.221_73),
        ],
    },
    Measured {
        experiment: "dxr/table2",
        workload: "LINX snapshot of 417,523 prefixes, uniformly random addresses",
        points: &[
            dxr2("0", "D18R", 86.4),
            dxr2("1", "D18R", 3.55),
            dxr2("2", "D18R", 5.15),
            dxr2("3", "D18R", 3.02),
            dxr2("4", "D18R", 1.47),
            dxr2("5", "D18R", 0.40),
            dxr2("6", "D18R", 0.04),
            dxr2("0", "D16R", 75.7),
            dxr2("1", "D16R", 4.00),
            dxr2("2", "D16R", 6.58),
            dxr2("3", "D16R", 5.46),
            dxr2("4", "D16R", 4.30),
            dxr2("5", "D16R", 2.68),
            dxr2("6", "D16R", 1.06),
        ],
    },
    Measured {
        experiment: "dxr/fig3",
        workload: "LINX snapshot, uniformly random keys, and the same keys again and again; one \
            to eight threads",
        points: &[
            dxr3("1", "D18R portable random", 117.0),
            dxr3("8", "D18R portable random", 840.0),
            dxr3("1", "D18R portable repeated", 285.0),
            dxr3("8", "D18R portable repeated", 1600.0),
        ],
    },
    Measured {
        experiment: "dxr/fig4",
        workload: "LINX snapshot; one lookup after the other, on one core and on eight",
        points: &[],
    },
    Measured {
        experiment: "dxr/fig5",
        workload: "the BSD radix tree of FreeBSD's kernel, with its lock; LINX snapshot",
        points: &[],
    },
    Measured {
        experiment: "dxr/fig6",
        workload: "LINX snapshot; chunks are rebuilt from the BSD radix tree of the kernel",
        points: &[],
    },
    Measured {
        experiment: "sail/fig3.7",
        workload: "FIBs and captured traffic of a tier-1 router, 22 to 23 October 2013",
        points: &[
            sail("the thesis", "sail-l", 673.22).to(708.71),
            around("lulea", 100.0),
            around("D18R", 150.0),
            around("poptrie", 430.0),
            around("tree-bitmap", 25.0),
            around("lc-trie", 16.0),
        ],
    },
    Measured {
        experiment: "sail/fig3.8",
        workload: "12 FIBs of RIPE's collectors of 8 August 2013; each prefix equally likely, in \
            the table's order",
        points: &[sail("the thesis", "sail-l", 589.08).to(624.65).on("swept")],
    },
    Measured {
        experiment: "sail/fig3.9",
        workload: "FIB of rrc00 of 1 January 2013; 25 traces of uniformly random addresses",
        points: &[sail("the thesis", "sail-l", 231.47).to(236.08)],
    },
    Measured {
        experiment: "sail/fig3.11",
        workload: "rrc00, rrc01 and rrc03, 319 × 500 updates as they came",
        points: &[
            words("the thesis: rrc00", 1.854),
            words("the thesis: rrc01", 2.253),
            words("the thesis: rrc03", 1.807),
        ],
    },
    Measured {
        experiment: "sail/fig3.12",
        workload: "1 to 12 FIBs of RIPE's collectors; on average over these, 132 million lookups a \
            second of random and 366 of prefix-based traffic",
        points: &[],
    },
    Measured {
        experiment: "sail/fig3.13",
        workload: "12 FIBs of RIPE's collectors, long prefixes added at random; prefix-based traffic",
        points: &[
            long("1", "sail-l", 448.0, 467.0),
            long("5", "sail-l", 357.0, 380.0),
            long("10", "sail-l", 271.0, 296.0),
            long("1", "poptrie", 162.0, 296.0),
            long("5", "poptrie", 150.0, 234.0),
            long("10", "poptrie", 124.0, 186.0),
        ],
    },
    Measured {
        experiment: "sail/table3.2",
        workload: "none: the bounds are reckoned from the layout",
        points: &[
            Point::new("on_chip_bytes", "the thesis' bound", "sail-b", 4.0 * MB, "table 3.2"),
            Point::new("on_chip_bytes", "the thesis' bound", "sail-u", 2.03 * MB, "table 3.2"),
            Point::new("on_chip_bytes", "the thesis' bound", "sail-l", 2.13 * MB, "table 3.2"),
        ],
    },
    Measured {
        experiment: "sail/table3.4",
        workload: "24 FIBs of RIPE's collectors, 2002 to 2013",
        points: &[
            share("rrc00 of 2002", 2.40),
            share("rrc00 of 2005", 5.89),
            share("rrc00 of 2013", 2.46),
            share("rrc01 of 2013", 0.34),
            share("rrc05 of 2013 (the least)", 0.25),
            share("rrc13 of 2013 (the most)", 7.55),
        ],
    },
    Measured {
        experiment: "sail/table3.5",
        workload: "IPv6 tables made out of IPv4 ones of 175,800 to 455,900 prefixes",
        points: &[
            chip("on_chip_bytes", "internet6:175800", 4.40),
            chip("on_chip_bytes", "internet6:340700", 4.78),
            chip("on_chip_bytes", "internet6:455900", 5.04),
            chip("filter_bytes", "internet6:175800", 0.40),
            chip("filter_bytes", "internet6:340700", 0.78),
            chip("filter_bytes", "internet6:455900", 1.04),
        ],
    },
    Measured {
        experiment: "sail/fig3.16",
        workload: "IPv6 tables made out of IPv4 ones of up to 455,900 prefixes",
        points: &[
            Point::new("pivots_24", "the thesis, around", "", 300e3, "section 3.6.3"),
            Point::new("pivots_54", "the thesis, around", "", 1e3, "section 3.6.3"),
        ],
    },
    Measured {
        experiment: "sail/fig3.17",
        workload: "IPv6 tables made out of IPv4 ones; hash tables loaded to a tenth",
        points: &[Point::new("bytes", "the thesis", "sail6-hybrid", 39.3 * MB, "section 3.6.3")
            .to(99.3 * MB)],
    },
    Measured {
        experiment: "bloomfwd/fig1",
        workload: "AS65000 (622,607 prefixes), 2^26 random addresses, 244 threads of a Xeon Phi 7120P",
        points: &[],
    },
    Measured {
        experiment: "bloomfwd/fig2",
        workload: "AS65000, 2^26 random addresses; 1 to 244 threads of a Xeon Phi 7120P, 1 to 32 \
            of two Xeon E5-2640v3",
        points: &[
            Point::new("rate_mlps", "1", "miht", 0.46, "section 6.3"),
            Point::new("rate_mlps", "1", "bloom-baseline", 0.31, "section 6.3"),
        ],
    },
    Measured {
        experiment: "bloomfwd/fig3",
        workload: "AS65000, 2^26 addresses of which 0 to 100 % have a route; Xeon Phi 7120P and CPU",
        points: &[],
    },
    Measured {
        experiment: "bloomfwd/fig4",
        workload: "AS65000; random addresses, and those of a CAIDA trace of 2016",
        points: &[],
    },
    Measured {
        experiment: "bloomfwd/fig5",
        workload: "AS65000 and parts of it, 2^26 random addresses, Xeon Phi 7120P",
        points: &[
            Point::new("rate_mlps", "1", "bloomfwd", 68.0, "section 6.5"),
            Point::new("rate_mlps", "16", "bloomfwd", 79.0, "section 6.5"),
        ],
    },
    Measured {
        experiment: "bloomfwd/fig6",
        workload: "five IPv4 tables of route collectors, 2^26 random addresses, Xeon Phi 7120P and 7250",
        points: &[Point::new(
            "rate_mlps",
            "the paper: best table, Xeon Phi 7250",
            "bloomfwd",
            169.65,
            "section 6.6",
        )],
    },
    Measured {
        experiment: "bloomfwd/fig7",
        workload: "AS65000-V6 (31,645 prefixes), 2^26 random addresses, Xeon Phi 7120P and 7250",
        points: &[Point::new(
            "rate_mlps",
            "the paper: best levels, Xeon Phi 7250",
            "bloomfwd6",
            182.75,
            "section 6.6",
        )],
    },
    Measured {
        experiment: "bloomfwd/fig8",
        workload: "EQUINIX, LINX and NWAX (IPv6, 42,227 to 44,103 prefixes), Xeon Phi 7120P",
        points: &[],
    },
    Measured {
        experiment: "bloomfwd/fig9",
        workload: "2^30 random addresses, buffers copied to a Xeon Phi 7120P while others are looked up",
        points: &[],
    },
    Measured {
        experiment: "bloomfwd/fig10",
        workload: "2^30 random addresses in buffers of 2 Mi, two Xeon E5-2640v3 and a Xeon Phi 7120P together",
        points: &[],
    },
    Measured {
        experiment: "bloomfwd/table3",
        workload: "AS65000 and SYDNEY, and five tables more",
        points: &[
            groups("0 to 20", "original", 104_283.0).on(AS65000),
            groups("0 to 20", "expanded", 1_048_576.0).on(AS65000),
            groups("21 to 24", "original", 516_699.0).on(AS65000),
            groups("21 to 24", "expanded", 971_555.0).on(AS65000),
            groups("25 to 32", "original", 1_625.0).on(AS65000),
            groups("25 to 32", "expanded", 113_397.0).on(AS65000),
            groups("0 to 20", "original", 102_696.0).on(SYDNEY),
            groups("0 to 20", "expanded", 1_048_576.0).on(SYDNEY),
            groups("21 to 24", "original", 553_811.0).on(SYDNEY),
            groups("21 to 24", "expanded", 1_037_247.0).on(SYDNEY),
            groups("25 to 32", "original", 10_862.0).on(SYDNEY),
            groups("25 to 32", "expanded", 67_397.0).on(SYDNEY),
        ],
    },
    Measured {
        experiment: "bloomfwd/table4",
        workload: "AS65000-V6 (31,645 prefixes), EQUINIX (42,663), LINX (44,103), NWAX (42,227)",
        points: &[
            levels("8", 60e3).on(AS65000_V6),
            levels("7", 76e3).on(AS65000_V6),
            levels("6", 103e3).on(AS65000_V6),
            levels("5", 380e3).on(AS65000_V6),
            levels("4", 1_166e3).on(AS65000_V6),
            levels("8", 236e3).on(EQUINIX),
            levels("7", 387e3).on(EQUINIX),
            levels("6", 648e3).on(EQUINIX),
            levels("5", 1_823e3).on(EQUINIX),
            levels("4", 2_702e3).on(EQUINIX),
        ],
    },
    Measured {
        experiment: "bloomfwd/table5",
        workload: "none: bits are reckoned for 971,555 prefixes; the rows called paper are table 5",
        points: &[],
    },
    Measured {
        experiment: "cuvpp/fig6",
        workload: "RV-linx (20,440 prefixes) scaled to 500,000 to 2,000,000; 500,000 addresses out \
            of 2^128, or prefix-compliant; one thread",
        points: &[],
    },
    Measured {
        experiment: "cuvpp/fig7",
        workload: "DT-IP6 (513 prefixes) scaled to 500,000 to 2,000,000; 500,000 addresses out of \
            2^128, or prefix-compliant; one thread",
        points: &[],
    },
    Measured {
        experiment: "cuvpp/fig8",
        workload: "RV-linx; packets of a TRex generator over 80 Gbit/s",
        points: &[],
    },
    Measured {
        experiment: "cuvpp/fig9",
        workload: "DT-IP6; packets of a TRex generator over 80 Gbit/s",
        points: &[],
    },
    Measured {
        experiment: "cuvpp/fig10",
        workload: "DT-IP6 scaled, 500,000 prefix-compliant addresses",
        points: &[],
    },
    Measured {
        experiment: "cuvpp/fig11",
        workload: "10,000 and 100,000 routes of one length or of 33; one to four workers, one card",
        points: &[],
    },
    Measured {
        experiment: "cuvpp/fig12",
        workload: "a filter of 1,000,000 places, filled",
        points: &[],
    },
    Measured {
        experiment: "cuvpp/table2",
        workload: "RV-linx scaled to 500,000 prefixes, 500,000 prefix-compliant addresses",
        points: &[
            probes("vpp-hash", 16_987_150.0),
            probes("vpp-bloom", 1_205_520.0),
            probes("vpp-trie", 500_000.0),
            probes("cuvpp", 648_800.0),
            seconds("vpp-hash", 0.274_702),
            seconds("vpp-bloom", 0.240_861),
            seconds("vpp-trie", 0.278_208),
            seconds("cuvpp", 0.219_023),
        ],
    },
    Measured {
        experiment: "cuvpp/table3",
        workload: "as table II; the processor's own counters",
        points: &[
            misses("vpp-hash", 6.640),
            misses("vpp-bloom", 6.114),
            misses("vpp-trie", 2.716),
            misses("cuvpp", 0.195),
        ],
    },
    Measured {
        experiment: "cuvpp/table4",
        workload: "1,000,000 prefixes; memory of whole VPP processes",
        points: &[
            Point::new("filter_bytes", "vpp-bloom", "", 6e6, "section V-H"),
            Point::new("filter_bytes", "vpp-trie", "", 581e6, "section V-H"),
            Point::new("filter_bytes", "cuvpp", "", 6e6, "section V-H"),
        ],
    },
    Measured {
        experiment: "cuckooswitch/fig5",
        workload: "random successful lookups, 16 threads, up to 10⁹ entries",
        points: &[],
    },
    Measured {
        experiment: "cuckooswitch/fig6",
        workload: "batches of 1 to 16, 16 threads, up to 10⁹ entries",
        points: &[],
    },
    Measured {
        experiment: "cuckooswitch/fig7",
        workload: "16 threads; TBB's concurrent_hash_map, the STL's hash_map, Google's sparse and \
            dense hash maps",
        points: &[],
    },
    Measured {
        experiment: "cuckooswitch/fig8",
        workload: "64-byte frames, 8 ports of 10 Gbit/s, 16 threads, up to 10⁹ entries",
        points: &[],
    },
    Measured {
        experiment: "cuckooswitch/fig9",
        workload: "64-byte frames, 8 ports of 10 Gbit/s, 16 threads; Google's dense_hash_map",
        points: &[],
    },
    Measured {
        experiment: "cuckooswitch/fig10",
        workload: "64-byte frames, 2,000,000 entries, 16 threads that forward beside one that updates",
        points: &[],
    },
    Measured {
        experiment: "cuckooswitch/table2",
        workload: "frames sent out of the port they came in by, 8 ports of 10 Gbit/s, 16 threads",
        points: &[
            frames("64", 92.22),
            frames("128", 66.24),
            frames("192", 47.17),
            frames("256", 36.23),
        ],
    },
    Measured {
        experiment: "cuckooswitch/table3",
        workload: "32 M to 1 G entries",
        points: &[
            gib("cuckoo", "32 M entries", 0.25, 32e6),
            gib("cuckoo", "500 M entries", 4.0, 500e6),
            gib("cuckoo", "1 G entries", 8.0, 1e9),
            gib("the paper: dense_hash_map", "32 M entries", 1.18, 32e6),
            gib("the paper: dense_hash_map", "500 M entries", 16.32, 500e6),
        ],
    },
    Measured {
        experiment: "gatekeeper/fig4.6",
        workload: "64-byte UDP from random sources, all of them new flows, from 16 raw sockets; one \
            thread, tables of 2^15 and 2^20",
        points: &[],
    },
    Measured {
        experiment: "gatekeeper/fig4.7",
        workload: "made keys, one core, loads of 0.1 to 0.9, each 1,000 times",
        points: &[],
    },
];

const fn dxr1(figure: &'static str, x: &'static str, series: &'static str, value: f64) -> Point {
    Point::new(figure, x, series, value, "table 1")
}

const fn dxr2(steps: &'static str, series: &'static str, percent: f64) -> Point {
    Point::new("share_percent", steps, series, percent, "table 2").on(LINX)
}

const fn dxr3(threads: &'static str, series: &'static str, mlps: f64) -> Point {
    Point::new("rate_mlps", threads, series, mlps, "section 4.1").on("1")
}

const fn sail(x: &'static str, series: &'static str, mpps: f64) -> Point {
    Point::new("rate_mlps", x, series, mpps, "section 3.5.3")
}

const fn around(series: &'static str, mpps: f64) -> Point {
    Point::new("rate_mlps", "the thesis", series, mpps, "table 3.3 (around)")
}

const fn words(x: &'static str, words: f64) -> Point {
    Point::new("update_off_chip_words_per_update", x, "sail-l", words, "section 3.5.3")
}

const fn long(percent: &'static str, series: &'static str, from: f64, to: f64) -> Point {
    Point::new("rate_mlps", percent, series, from, "section 3.5.3").to(to).on("swept")
}

const fn share(x: &'static str, percent: f64) -> Point {
    Point::new("long_percent", x, "", percent, "table 3.4")
}

const fn chip(figure: &'static str, x: &'static str, mb: f64) -> Point {
    Point::new(figure, x, "", mb * MB, "table 3.5")
}

const fn groups(x: &'static str, series: &'static str, prefixes: f64) -> Point {
    Point::new("prefixes_of_group", x, series, prefixes, "table 3")
}

const fn levels(x: &'static str, prefixes: f64) -> Point {
    Point::new("expanded", x, "greedy", prefixes, "table 4")
}

const fn probes(engine: &'static str, probes: f64) -> Point {
    Point::new("fib_probes_total", engine, "", probes, "table II")
}

/// The paper's seconds for 500,000 addresses, as a rate.
const fn seconds(engine: &'static str, seconds: f64) -> Point {
    Point::new("rate_mlps", engine, "", 0.5 / seconds, "table II")
}

const fn misses(engine: &'static str, percent: f64) -> Point {
    Point::new("miss_percent", engine, "", percent, "table III")
}

const fn frames(bytes: &'static str, mpps: f64) -> Point {
    Point::new("rate_mpps", bytes, "16", mpps, "table 2")
}

/// The paper's GiB of a table, by the entry: M and G are powers of ten there.
const fn gib(engine: &'static str, series: &'static str, gib: f64, entries: f64) -> Point {
    let bytes = gib * 1024.0 * 1_048_576.0;
    Point::new("bytes_per_entry", engine, series, bytes / entries, "table 3")
}

/// The names of the generated tables that stand in for those of the papers.
const LINX: &str = "internet:417523,hops=213";
const OREGON: &str = "internet:421059,2,hops=38";
const PAIX: &str = "internet:412568,3,hops=80";
const AS65000: &str = "internet:622607";
const SYDNEY: &str = "internet:667359,2";
const AS65000_V6: &str = "internet6:31645";
const EQUINIX: &str = "internet6:42663,2";

/// The thesis' MB are 2^20 bytes.
const MB: f64 = 1_048_576.0;
