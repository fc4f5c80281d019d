//! `dxr/fig6`: update time by prefix length.

use super::{LINX, d16r_d18r};
use crate::lookups::{Claim, Measure, Part, Study};
use crate::record::Bound;
use crate::{Card, Plot, Style, Takes};

/// See the module.
pub static FIG6: Study = Study {
    card: &Card {
        name: "dxr/fig6",
        takes: Takes { full_s: 15.0, quick_s: 2.0 },
        help: "time of one update by the length of its prefix",
        source: "DXR, figure 6",
        claim: "short prefixes take long, as they rebuild many chunks; long ones touch a few entries",
        plots: &[Plot {
            title: "Update by prefix length",
            figure: "update_us",
            unit: "µs",
            x: "length",
            series: "engine",
            panels: &["table"],
            style: Style::LogY,
        }],
    },
    parts: |context| {
        let part = |table: &String| {
            Part::ipv4(table).entrants(d16r_d18r()).measure(&[Measure::UpdatesByLength])
        };
        context.beside(&[LINX]).iter().map(part).collect()
    },
    claims: &[Claim::Ratio {
        text: "an update of a /8 takes longer than one of a /24",
        figure: "update_us",
        label: "length",
        of: "8",
        to: "24",
        bound: Bound::more(),
        when: &[],
    }],
    notes: &["an update is a delete, or the insert that puts the prefix back"],
};
