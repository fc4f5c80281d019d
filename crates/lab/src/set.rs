//! Runs a set of experiments, one after the other.

use std::panic::{self, AssertUnwindSafe};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::context::clock_text;
use crate::error::nearest;
use crate::{Card, Context, Error, Experiment, Record, experiments};

/// What became of one experiment of a set.
pub enum Outcome {
    /// It was run; its record, and where that is.
    Ran(Record, PathBuf),
    /// Its record was there already.
    There(Record, PathBuf),
    /// It could not run.
    Failed(Error),
}

/// The experiments that `names` ask for, in the registry's order. A name is an
/// experiment's, or its beginning up to a slash (`router`), or `all`.
///
/// # Errors
/// When a name fits none.
pub fn select(names: &[String]) -> Result<Vec<&'static dyn Experiment>, Error> {
    let fits = |experiment: &dyn Experiment, name: &str| {
        let full = experiment.card().name;
        name == "all" || full == name || full.split('/').next() == Some(name.trim_end_matches('/'))
    };
    let all = experiments::all();
    for name in names {
        if !all.iter().any(|experiment| fits(*experiment, name)) {
            let names = all.iter().map(|experiment| experiment.card().name);
            let groups = names.clone().filter_map(|name| name.split('/').next());
            let near = nearest(name, names.chain(groups).chain(["all"]));
            return Err(Error::Unknown { name: name.clone(), near });
        }
    }
    let wanted = |experiment: &&&dyn Experiment| names.iter().any(|name| fits(**experiment, name));
    Ok(all.iter().filter(wanted).copied().collect())
}

/// Runs `experiments` and hands `each` what became of them. Those whose record
/// this very program has left, with the same options on this machine, are run
/// only if `again` says so: a set may be run in pieces. One that cannot run does
/// not keep the others from it.
///
/// # Errors
/// When a table that was asked for cannot be loaded, or `each` fails.
pub fn run<E: From<Error>>(
    experiments: &[&dyn Experiment],
    context: &mut Context,
    again: bool,
    mut each: impl FnMut(&str, Outcome) -> Result<(), E>,
) -> Result<(), E> {
    context.open_tables()?;
    let mut progress = Progress::new(experiments, context, again);
    for (i, experiment) in experiments.iter().enumerate() {
        let name = experiment.card().name;
        if let Some((record, path)) = context.done(name).filter(|_| !again) {
            each(name, Outcome::There(record, path))?;
            continue;
        }
        let left = clock_text(progress.left());
        context.say(&format!("{} of {}: {name}, {left} left", i + 1, experiments.len()));
        let start = Instant::now();
        let later = experiments[i + 1..].iter().map(|experiment| experiment.card().name);
        let ahead = later.filter(|name| again || context.done(name).is_none()).collect();
        let outcome = match one(*experiment, context, ahead) {
            Ok((record, path)) => Outcome::Ran(record, path),
            Err(error) => Outcome::Failed(error),
        };
        progress.did(experiment.card(), start.elapsed());
        each(name, outcome)?;
    }
    Ok(())
}

/// Runs one experiment and writes its record; those `ahead` come later.
fn one(
    experiment: &dyn Experiment,
    context: &mut Context,
    ahead: Vec<&'static str>,
) -> Result<(Record, PathBuf), Error> {
    let name = experiment.card().name;
    let families = experiment.families(context);
    for table in context.given().to_vec() {
        let why = match families {
            [] => "measures no table of routes that is given to it",
            _ if context.has_any_of(families, &table)? => continue,
            _ => "measures the other family",
        };
        return Err(Error::NoTable { experiment: name, table, why });
    }
    let engines = context.engines().to_vec();
    let (taken, other): (Vec<_>, Vec<_>) =
        engines.into_iter().partition(|engine| experiment.takes_engine(context, engine));
    for engine in other {
        let error = Error::NoEngine { experiment: name, engine };
        if taken.is_empty() {
            return Err(error);
        }
        context.say(&format!("{name}: {error}"));
    }
    if let Some(file) = context.given_updates().filter(|_| !experiment.takes_updates()) {
        return Err(Error::NoUpdates { experiment: name, file: file.into() });
    }
    if !context.has_time_for(Duration::ZERO) {
        return Err(Error::Missing { experiment: name, what: "more time".into() });
    }
    context.start(name, ahead)?;
    // A set of experiments runs for an hour: one that panics must not end the others.
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| experiment.run(context)));
    let panicked = |_| Err(Error::Wrong { experiment: name, what: "it panicked".into() });
    let record = outcome.unwrap_or_else(panicked)?;
    let path = record.save(context.out())?;
    context.finish()?;
    Ok((record, path))
}

/// How much is to be done: the usual times of the experiments, corrected by how
/// those that are done compare with theirs.
struct Progress {
    quick: bool,
    to_do: f64,
    usual: f64,
    took: f64,
}

impl Progress {
    fn new(experiments: &[&dyn Experiment], context: &Context, again: bool) -> Progress {
        let quick = context.quick();
        let cards = experiments.iter().map(|experiment| experiment.card());
        let cards = cards.filter(|card| again || context.done(card.name).is_none());
        let to_do = cards.map(|card| card.takes.seconds(quick)).sum();
        Progress { quick, to_do, usual: 0.0, took: 0.0 }
    }

    fn did(&mut self, card: &Card, took: Duration) {
        let usual = card.takes.seconds(self.quick);
        self.to_do -= usual;
        self.usual += usual;
        self.took += took.as_secs_f64();
    }

    fn left(&self) -> Duration {
        // A minute at the usual speed keeps the first few from saying too much.
        let pace = (self.took + 60.0) / (self.usual + 60.0);
        Duration::from_secs_f64((self.to_do * pace).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{Options, Row, Takes};

    const CARD: Card = Card {
        name: "",
        takes: Takes { full_s: 60.0, quick_s: 10.0 },
        help: "",
        source: "",
        claim: "",
        plots: &[],
    };

    struct Made(&'static str, bool);

    impl Experiment for Made {
        fn card(&self) -> &'static Card {
            Box::leak(Box::new(Card { name: self.0, ..CARD }))
        }

        fn judge(&self, _: &[Row]) -> Vec<crate::Verdict> {
            Vec::new()
        }

        fn run(&self, context: &mut Context) -> Result<Record, Error> {
            assert!(self.1, "a fault of the experiment");
            let row = Row::new([("engine", "none".to_string())]).with("rate", 1.0);
            Ok(context.record(vec![row], vec![], vec![]))
        }
    }

    fn outcomes(out: &Path, quick: bool, again: bool) -> Vec<char> {
        let options = Options {
            quick,
            out: out.into(),
            tables: vec![],
            updates: None,
            engines: vec![],
            hops: Options::HOPS,
        };
        let mut context = Context::new(options, |_| {});
        let set: [&dyn Experiment; 3] =
            [&Made("made/a", true), &Made("made/b", false), &Made("made/c", true)];
        let mut found = Vec::new();
        let each = |_: &str, outcome| {
            found.push(match outcome {
                Outcome::Ran(..) => 'r',
                Outcome::There(..) => 't',
                Outcome::Failed(_) => 'f',
            });
            Ok::<(), Error>(())
        };
        run(&set, &mut context, again, each).unwrap();
        found
    }

    #[test]
    fn a_set_goes_on_with_what_is_not_there() {
        let out = std::env::temp_dir().join(format!("rutter-lab-set-{}", std::process::id()));
        assert_eq!(outcomes(&out, true, false), ['r', 'f', 'r']);
        assert_eq!(outcomes(&out, true, false), ['t', 'f', 't']);
        assert_eq!(outcomes(&out, true, true), ['r', 'f', 'r']);
        assert_eq!(outcomes(&out, false, false), ['r', 'f', 'r']);
        std::fs::remove_dir_all(out).unwrap();
    }

    #[test]
    fn a_table_that_has_changed_is_measured_anew_and_one_that_is_not_there_stops_all() {
        let out = std::env::temp_dir().join(format!("rutter-lab-asked-{}", std::process::id()));
        std::fs::create_dir_all(&out).unwrap();
        let table = out.join("routes").display().to_string();
        let ran = |tables: &[&String]| {
            let tables = tables.iter().map(|table| (*table).clone()).collect();
            let options = Options {
                quick: true,
                out: out.clone(),
                tables,
                updates: None,
                engines: vec![],
                hops: Options::HOPS,
            };
            let (mut context, mut ran) = (Context::new(options, |_| {}), 0);
            run(&[&Loads], &mut context, false, |_, outcome| {
                ran += usize::from(matches!(outcome, Outcome::Ran(..)));
                Ok::<(), Error>(())
            })
            .map(|()| ran)
        };
        assert!(ran(&[&table]).is_err());
        std::fs::write(&table, "10.0.0.0/8 a\n").unwrap();
        assert_eq!([ran(&[&table]).unwrap(), ran(&[&table]).unwrap()], [1, 0]);
        std::fs::write(&table, "10.0.0.0/8 a\n10.1.0.0/16 b\n").unwrap();
        assert_eq!([ran(&[&table]).unwrap(), ran(&[&table]).unwrap()], [1, 0]);
        assert!(ran(&[&table, &table]).is_err());
        std::fs::remove_dir_all(out).unwrap();
    }

    /// Loads the tables that it is given.
    struct Loads;

    impl Experiment for Loads {
        fn card(&self) -> &'static Card {
            const LOADS: Card = Card { name: "made/loads", ..CARD };
            &LOADS
        }

        fn families(&self, _: &Context) -> &'static [&'static str] {
            &["ipv4"]
        }

        fn judge(&self, _: &[Row]) -> Vec<crate::Verdict> {
            Vec::new()
        }

        fn run(&self, context: &mut Context) -> Result<Record, Error> {
            context.tables(&[]).iter().try_for_each(|table| context.load(table).map(drop))?;
            Ok(context.record(vec![], vec![], vec![]))
        }
    }

    #[test]
    fn what_is_left_follows_the_pace() {
        let mut progress = Progress { quick: true, to_do: 600.0, usual: 0.0, took: 0.0 };
        assert_eq!(progress.left(), Duration::from_secs(600));
        (progress.to_do, progress.usual, progress.took) = (300.0, 300.0, 660.0);
        assert_eq!(progress.left(), Duration::from_secs(600));
    }
}
