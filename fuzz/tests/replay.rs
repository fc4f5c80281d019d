//! Every file of every corpus, and every beginning of it, through its target.

use std::fs;
use std::path::Path;

use rutter_fuzz::{TARGETS, seeds};

fn corpus(target: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target)
}

#[test]
fn corpora() {
    for (name, target) in TARGETS {
        let mut files = 0;
        for entry in fs::read_dir(corpus(name)).unwrap_or_else(|error| panic!("{name}: {error}")) {
            let path = entry.unwrap().path();
            println!("{}", path.display()); // shown when the target panics
            let bytes = fs::read(&path).unwrap();
            target(&bytes);
            // Cut off anywhere near the headers, and here and there behind.
            let step = (bytes.len() / 256).max(1);
            (0..bytes.len()).step_by(step).for_each(|len| target(&bytes[..len]));
            files += 1;
        }
        assert!(files > 0, "{name} has no corpus");
    }
}

#[test]
fn each_target_has_its_file() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz_targets");
    for (name, _) in TARGETS {
        assert!(folder.join(name).with_extension("rs").exists(), "{name}");
    }
    assert_eq!(fs::read_dir(folder).unwrap().count(), TARGETS.len());
}

#[test]
#[ignore = "writes the seeds into the corpora"]
fn write_seeds() {
    for (target, name, bytes) in seeds() {
        fs::create_dir_all(corpus(target)).unwrap();
        fs::write(corpus(target).join(name), bytes).unwrap();
    }
}
