//! A file that is there as a whole or not at all, however the process ends.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{AtFlags, CWD, OFlags, linkat};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::error::Error;

/// A file to be written. It has no name until [`Whole::keep`], where the file system allows
/// that; else one that begins with a dot, and that goes when SIGINT or SIGTERM ends the process.
pub struct Whole {
    path: PathBuf,
    /// The name until then.
    beside: PathBuf,
    file: File,
    how: How,
}

#[derive(Eq, PartialEq)]
enum How {
    /// No name.
    Nameless,
    /// The name of `beside`.
    Beside,
    /// No file: a device or a pipe.
    InPlace,
}

impl Whole {
    /// Begins a file; an existing one at `path` stays as it is. Clears `dies`, which lets an
    /// interrupt end the process at once, where that would leave a file.
    pub fn create(path: &Path, dies: &AtomicBool) -> Result<Self, Error> {
        let of = |error| Error::File { path: path.into(), error };
        let name = path.file_name().ok_or(io::ErrorKind::IsADirectory).map_err(|e| of(e.into()))?;
        let folder = path.parent().filter(|folder| *folder != Path::new(""));
        let folder = folder.unwrap_or(Path::new("."));
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}", std::process::id()));
        let beside = folder.join(hidden);
        let mut options = OpenOptions::new();
        options.write(true);
        let in_place = fs::metadata(path).is_ok_and(|data| !data.is_file());
        let (file, how) = if in_place {
            (options.open(path), How::InPlace)
        } else {
            let nameless = OFlags::TMPFILE.bits().cast_signed();
            match options.clone().custom_flags(nameless).mode(0o666).open(folder) {
                Err(error) if is_unsupported(&error) => {
                    remove_at_end(beside.clone()).map_err(of)?;
                    dies.store(false, Ordering::Relaxed);
                    (options.create_new(true).open(&beside), How::Beside)
                }
                opened => (opened, How::Nameless),
            }
        };
        Ok(Whole { path: path.into(), beside, file: file.map_err(of)?, how })
    }

    /// Where to write.
    pub fn writer(&self) -> Result<BufWriter<Box<dyn Write>>, Error> {
        let file = self.file.try_clone().map_err(|error| self.fault(error))?;
        Ok(BufWriter::new(Box::new(file)))
    }

    /// Makes it the file at its path, in one step.
    pub fn keep(mut self) -> Result<(), Error> {
        self.name().map_err(|error| self.fault(error))
    }

    fn name(&mut self) -> io::Result<()> {
        if self.how == How::InPlace {
            return Ok(());
        }
        self.file.sync_all()?;
        if self.how == How::Nameless {
            let own = format!("/proc/self/fd/{}", self.file.as_raw_fd());
            linkat(CWD, &own, CWD, &self.beside, AtFlags::SYMLINK_FOLLOW)?;
            self.how = How::Beside;
        }
        fs::rename(&self.beside, &self.path)?;
        self.how = How::InPlace;
        Ok(())
    }

    fn fault(&self, error: io::Error) -> Error {
        Error::File { path: self.path.clone(), error }
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        if self.how == How::Beside {
            let _ = fs::remove_file(&self.beside);
        }
    }
}

/// Removes that file when a signal ends the process.
fn remove_at_end(beside: PathBuf) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let listen = move || {
        if let Some(signal) = signals.forever().next() {
            let _ = fs::remove_file(&beside);
            signal_hook::low_level::exit(128 + signal);
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(listen).map(drop)
}

/// Old kernels and some file systems.
fn is_unsupported(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Unsupported | io::ErrorKind::IsADirectory)
}
