use super::*;

fn context(out: &Path) -> Context {
    let options = Options {
        quick: true,
        out: out.into(),
        tables: vec![],
        updates: None,
        engines: vec![],
        hops: Options::HOPS,
    };
    Context::new(options, |_| {})
}

#[test]
fn cells_of_one_name_are_cells_of_their_own() {
    let names = distinct(["a", "b", "a", "a"]).into_iter().map(|(name, _)| name);
    assert!(names.eq(["a", "b", "a (2)", "a (3)"]));
}

#[test]
fn what_would_end_too_late_is_left_out_and_named() {
    let out = std::env::temp_dir().join(format!("rutter-lab-ends-{}", std::process::id()));
    let mut context = context(&out);
    context.start("test/ends", vec![]).unwrap();
    context.end_after(Duration::from_millis(500));
    let rows = context.cells(["a", "b", "c"], |_, cell| {
        std::thread::sleep(Duration::from_millis(300));
        Ok(vec![Row::new([("cell", (*cell).to_string())])])
    });
    let record = context.record(rows.unwrap(), vec![], vec![]);
    assert_eq!(record.rows.len(), 1);
    assert_eq!(record.notes, ["left out, as the time was up: b, c"]);
    fs::remove_dir_all(out).unwrap();
}

#[test]
fn an_interrupted_run_goes_on_where_it_was() {
    let out = std::env::temp_dir().join(format!("rutter-lab-resume-{}", std::process::id()));
    let fail_at = |bad: &'static str, ran: &mut Vec<String>| {
        let mut context = context(&out);
        context.start("test/resume", vec![]).unwrap();
        let rows = context.cells(["a", "b", "c"], |_, cell| {
            if *cell == bad {
                return Err(Error::Unknown { name: bad.into(), near: None });
            }
            ran.push((*cell).to_string());
            std::thread::sleep(Duration::from_millis(20));
            Ok(vec![Row::new([("cell", (*cell).to_string())])])
        });
        rows.map(|rows| {
            let took_s = context.took_s();
            context.finish().unwrap();
            (rows, took_s)
        })
    };
    let mut ran = Vec::new();
    assert!(fail_at("c", &mut ran).is_err());
    assert_eq!(ran, ["a", "b"]);
    let (rows, took_s) = fail_at("none", &mut ran).unwrap();
    // Two cells were measured by the run before.
    assert!(took_s >= 0.06, "{took_s}");
    assert_eq!(ran, ["a", "b", "c"]);
    assert_eq!(rows.iter().map(|row| row.label("cell")).collect::<Vec<_>>(), ["a", "b", "c"]);
    assert!(fail_at("none", &mut ran).is_ok());
    assert_eq!(ran.len(), 6);
    fs::remove_dir_all(out).unwrap();
}

#[test]
fn a_cell_that_is_handed_on_is_not_measured_again() {
    let out = std::env::temp_dir().join(format!("rutter-lab-hand-{}", std::process::id()));
    let mut context = context(&out);
    let row = |name: &str| Row::new([("cell", name.to_string())]);
    context.start("test/first", vec!["test/second"]).unwrap();
    assert!(context.lacks("test/second", "a") && !context.lacks("test/third", "a"));
    let found = context.found(|context| {
        let mut work = [Variant::new("", slices::repeat(1, || 0))];
        context.measure(&mut work);
        vec![row("of the first")]
    });
    assert!(found.slices.all > 0 && !found.took.is_zero());
    assert_eq!(context.slices.get(), Slices::default());
    let slices = found.slices;
    let found = Found { took: Duration::from_secs(1000), ..found };
    context.hand_on("test/second", "a", found).unwrap();
    assert!(!context.lacks("test/second", "a") && context.lacks("test/second", "b"));
    // What the other's cell took is the other's.
    assert!(context.took_s() < 0.0, "{}", context.took_s());
    context.start("test/second", vec![]).unwrap();
    assert_eq!(context.slices.get(), slices);
    assert!(context.took_s() >= 1000.0);
    let rows = context.cells(["a", "b"], |_, cell| Ok(vec![row(cell)])).unwrap();
    let cells: Vec<&str> = rows.iter().map(|row| row.label("cell")).collect();
    assert_eq!(cells, ["of the first", "b"]);
    fs::remove_dir_all(out).unwrap();
}
