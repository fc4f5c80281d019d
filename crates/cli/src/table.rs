//! `--table`: loads it, shows the progress, and reports faults.

use std::cell::Cell;
use std::io::{IsTerminal, Write, stderr};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use formats::{Listed, Load, Place, Progress, Report, Table};

use crate::error::Error;
use crate::status::Status;
use crate::warn::warn;

/// Options of every command that reads a table.
#[derive(clap::Args)]
pub struct TableArgs {
    /// A table: text (`prefix next-hop` lines), pyasn or MRT, plain, .gz, .bz2
    /// or .xz; `-` for standard input; or a generated one: internet:N (IPv4),
    /// internet6:N, internet:N+M; `,long=22` makes 22 % of them longer than /24 and /48
    #[arg(short, long, value_name = "FILE")]
    pub table: String,

    /// Clear bits to the right of a prefix's length instead of refusing the line
    #[arg(long)]
    pub mask: bool,

    /// MRT: use this peer's routes instead of the best of all peers'
    #[arg(long, value_name = "ADDR")]
    pub peer: Option<IpAddr>,
}

impl TableArgs {
    /// Loads the table; reports on standard error what could not be read.
    pub fn load(&self) -> Result<(Table, Status), Error> {
        self.load_listed(None)
    }

    /// The same; the routes are shown to `listed` before a store is made of them.
    pub fn load_listed(&self, listed: Option<&dyn Fn(Listed)>) -> Result<(Table, Status), Error> {
        let (start, shown) = (Instant::now(), Cell::new(None));
        let progress = |progress: Progress| show(progress, start, &shown);
        let shows = stderr().is_terminal();
        let load = Load {
            mask: self.mask,
            peer: self.peer,
            progress: if shows { Some(&progress) } else { None },
            listed,
        };
        let loaded = Table::open(&self.table, &load);
        if shown.get().is_some() {
            let _ = write!(stderr(), "\r\x1b[K");
        }
        let spec = &self.table;
        let table = loaded.map_err(|error| Error::Table { spec: spec.clone(), error })?;
        let status = tell(spec, &table.report);
        Ok((table, status))
    }
}

/// Reports a file's faults on standard error.
pub fn tell(spec: &str, report: &Report) -> Status {
    for damage in &report.damage {
        match damage.place {
            Place::Line(line) => warn(format_args!("{spec}:{line}: {}", damage.fault)),
            place => warn(format_args!("{spec}: {place}: {}", damage.fault)),
        }
    }
    if report.damaged > report.damage.len() as u64 {
        warn(format_args!("{spec}: {} damaged places in all", report.damaged));
    }
    let counts = [
        (report.duplicates, "replaced by a later route of the same prefix"),
        (report.masked, "with host bits cleared"),
    ];
    for (count, what) in counts.into_iter().filter(|&(count, _)| count > 0) {
        warn(format_args!("{spec}: {count} routes {what}"));
    }
    if report.is_sound() { Status::Success } else { Status::Fault }
}

/// Draws the progress of a load that takes long, ten times a second.
fn show(progress: Progress, start: Instant, shown: &Cell<Option<Instant>>) {
    let now = Instant::now();
    let next = shown.get().map_or(start + PATIENCE, |last| last + REDRAW);
    if now < next {
        return;
    }
    shown.set(Some(now));
    let Progress { read, total, routes } = progress;
    let share = (read * 100).checked_div(total).map(|percent| format!("{percent} %, "));
    let share = share.unwrap_or_default();
    let _ = write!(stderr(), "\r\x1b[Kreading the table: {share}{routes} routes");
}

/// Before the progress is shown.
const PATIENCE: Duration = Duration::from_millis(500);

const REDRAW: Duration = Duration::from_millis(100);
