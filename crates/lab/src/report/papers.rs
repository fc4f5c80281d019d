//! What the papers measured, and on what: the points that pictures show beside ours.
//!
//! Every figure here is in the text or in a table of the paper, whose place is named beside
//! it. What only a plot of the paper shows is not here.

mod points;

use points::MEASURED;

/// A paper, and the machine that its figures come from.
pub(super) struct Paper {
    /// The folder of its experiments.
    pub group: &'static str,
    /// Authors, title, place.
    pub cite: &'static str,
    /// What it was measured on.
    pub machine: &'static str,
    /// Figures that no experiment here redoes, and why.
    pub left_out: &'static [(&'static str, &'static str)],
}

/// What a paper measured for one of its figures or tables.
pub(super) struct Measured {
    /// The experiment that redoes it.
    pub experiment: &'static str,
    /// Tables, traffic and threads of the paper.
    pub workload: &'static str,
    /// Its figures.
    pub points: &'static [Point],
}

/// One figure of a paper.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Point {
    /// The figure of ours that it is beside (`rate_mlps`), in its unit.
    pub figure: &'static str,
    /// The place along the plot's `x`; empty for one that belongs to no place.
    pub x: &'static str,
    /// Which series; its engine's name comes first. Empty where a plot has but one.
    pub series: &'static str,
    /// Only in panels of this name; empty in all of them.
    pub panel: &'static str,
    /// The figure, or the smallest that the text gives.
    pub value: f64,
    /// The same, or the largest that the text gives.
    pub to: f64,
    /// The place in the paper: `table 2`.
    pub source: &'static str,
}

impl Point {
    /// One figure.
    pub const fn new(
        figure: &'static str,
        x: &'static str,
        series: &'static str,
        value: f64,
        source: &'static str,
    ) -> Point {
        Point { figure, x, series, panel: "", value, to: value, source }
    }

    /// Up to this figure.
    const fn to(self, to: f64) -> Point {
        Point { to, ..self }
    }

    /// In panels of this name alone.
    const fn on(self, panel: &'static str) -> Point {
        Point { panel, ..self }
    }

    /// What lies between the smallest and the largest.
    pub fn middle(&self) -> f64 {
        (self.value + self.to) / 2.0
    }
}

/// The paper of a folder of experiments, if it redoes one.
pub(super) fn paper(group: &str) -> Option<&'static Paper> {
    PAPERS.iter().find(|paper| paper.group == group)
}

/// What the paper measured for an experiment.
pub(super) fn measured(experiment: &str) -> Option<&'static Measured> {
    MEASURED.iter().find(|measured| measured.experiment == experiment)
}

const PAPERS: &[Paper] = &[
    Paper {
        group: "dxr",
        cite: "M. Zec, L. Rizzo, M. Mikuc: DXR: Towards a Billion Routing Lookups per Second in \
            Software. ACM SIGCOMM CCR 42(5), 2012",
        machine: "AMD FX-8150, 8 cores at 3.6 GHz, 2 MB of L2 for two cores, 8 MB of L3; 1 GB of \
            keys made beforehand",
        left_out: &[],
    },
    Paper {
        group: "sail",
        cite: "Q. Fu: High-Performance Software Packet Processing. Dissertation, Boston University; \
            chapter 3, SAIL",
        machine: "Intel Core i7-3520M at 2.82 GHz, one core, 4 MB of L3",
        left_out: &[("figure 3.10", "it describes traffic, and compares nothing")],
    },
    Paper {
        group: "bloomfwd",
        cite: "A. Lucchesi, A. C. Drummond, G. Teodoro: High-performance IP lookup using Intel Xeon \
            Phi: a Bloom filters based approach, 2018",
        machine: "Intel Xeon Phi 7120P (244 threads), Xeon Phi 7250, two Xeon E5-2640v3",
        left_out: &[(
            "the claims of figures 9 and 10",
            "they are judged on a GPU alone; of a model the record says: not measured on a GPU",
        )],
    },
    Paper {
        group: "cuvpp",
        cite: "M. Kwon, K. P. Neupane, J. Marshall, M. M. Rafique: CuVPP: Filter-based Longest \
            Prefix Matching in Software Data Planes",
        machine: "Cisco UCS C240 M4, Intel Xeon E5-2640 v4 at 2.4 GHz, 25 MB of L3; VPP 17.07",
        left_out: &[("figure 5", "it compares the testbed with another of VPP's")],
    },
    Paper {
        group: "cuckooswitch",
        cite: "D. Zhou, B. Fan, H. Lim, M. Kaminsky, D. G. Andersen: Scalable, High Performance \
            Ethernet Forwarding with CuckooSwitch. ACM CoNEXT, 2013",
        machine: "two Intel Xeon E5-2680 at 2.7 GHz, 16 threads, 2 × 20 MB of L3; four dual-port \
            10 GbE cards",
        left_out: &[],
    },
    Paper {
        group: "gatekeeper",
        cite: "Q. Fu: High-Performance Software Packet Processing. Dissertation, Boston University; \
            chapter 4, Gatekeeper",
        machine: "Intel Xeon E5-2690 v2 at 3 GHz, one thread, 25 MB of L3; Intel 82599 10 GbE cards",
        left_out: &[],
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::experiments;

    #[test]
    fn every_figure_of_a_paper_has_its_workload() {
        for card in experiments::all().iter().map(|experiment| experiment.card()) {
            let (group, figure) = card.name.split_once('/').expect("a name is `group/figure`");
            let redoes = ["fig", "table"].iter().any(|kind| figure.starts_with(kind));
            let theirs = paper(group).is_some() && redoes;
            assert_eq!(measured(card.name).is_some(), theirs, "{}", card.name);
        }
    }

    #[test]
    fn every_point_belongs_to_a_plot_of_its_experiment() {
        let mut seen = BTreeSet::new();
        for measured in MEASURED {
            let name = measured.experiment;
            assert!(seen.insert(name), "{name} is there twice");
            let mut cards = experiments::all().iter().map(|experiment| experiment.card());
            let card = cards.find(|card| card.name == name).expect(name);
            assert!(paper(name.split('/').next().unwrap()).is_some(), "{name} is of no paper");
            assert!(!measured.workload.is_empty(), "{name}");
            for point in measured.points {
                let drawn = card.plots.iter().any(|plot| plot.figure == point.figure);
                assert!(drawn, "{name} draws no {}", point.figure);
                assert!(point.value <= point.to && point.value >= 0.0, "{name}: {point:?}");
                let places = ["table", "figure", "section", "§"];
                assert!(
                    places.iter().any(|place| point.source.contains(place)),
                    "{name}: {point:?}"
                );
            }
        }
    }
}
