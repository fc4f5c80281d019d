//! `rutter lab`: starts the lab, which is a program of its own (`rutter-lab`), so that
//! a router carries neither experiments nor rivals.
//!
//! The lab takes this process's place: signals and the exit status are its own.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use crate::context::Context;
use crate::error::Error;
use crate::status::Status;

/// Measure engines and the router, and redo the figures of the papers
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  rutter lab help
  rutter lab list
  rutter lab run lpm/peers --quick
  rutter lab run all && rutter lab report

The lab is a separate program, `rutter-lab`, searched for beside this one and then on the
PATH. `make lab` builds it, `make install` installs it.")]
pub struct Args {
    /// The lab's command and its options; `help` lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    arguments: Vec<OsString>,
}

/// Becomes the lab; returns only where that cannot be.
pub fn run(args: Args, cx: &mut Context) -> Result<Status, Error> {
    let json = cx.json.then(|| OsString::from("--json"));
    let arguments: Vec<OsString> = json.into_iter().chain(args.arguments).collect();
    for program in programs() {
        // Its own help and messages name it as it was called.
        let why = Command::new(program).arg0("rutter lab").args(&arguments).exec();
        if why.kind() != ErrorKind::NotFound {
            return Err(Error::Lab(why));
        }
    }
    Err(Error::Lab(ErrorKind::NotFound.into()))
}

/// The lab's commands and the names of its experiments, for shells to complete; nothing where there
/// is no lab.
pub fn words() -> Vec<String> {
    let said = programs().find_map(|program| Command::new(program).arg("words").output().ok());
    let words = said.filter(|said| said.status.success()).map(|said| said.stdout);
    let words = String::from_utf8(words.unwrap_or_default()).unwrap_or_default();
    words.lines().map(str::to_owned).collect()
}

/// Where the lab may be: beside this program, then on the PATH.
fn programs() -> impl Iterator<Item = PathBuf> {
    let beside = std::env::current_exe().ok().map(|me| me.with_file_name(PROGRAM));
    beside.into_iter().chain([PathBuf::from(PROGRAM)])
}

const PROGRAM: &str = "rutter-lab";
