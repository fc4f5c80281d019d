//! A policy's source: its text, and data files for it.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use super::control;
use super::shared::{memory, seal_from_writers};

/// A policy's text and its data, in memory that each of its processes maps and none can change;
/// cheap to clone.
#[derive(Clone, Debug)]
pub struct Source(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    name: String,
    files: Vec<File>,
}

/// A file of the policy.
#[derive(Debug)]
pub(crate) struct File {
    pub name: String,
    pub len: usize,
    pub memory: OwnedFd,
}

impl Source {
    /// A policy from its name and its files, each with a name ([`file_name`]); the first file is its
    /// text.
    ///
    /// # Errors
    /// When there are more than [`MOST`], a name is too long, or memory is short.
    pub fn new(name: &str, files: &[(&str, &[u8])]) -> io::Result<Source> {
        if files.len() > MOST {
            return Err(io::Error::other(format!("a policy has {MOST} files at most")));
        }
        let file = |(name, bytes): &(&str, &[u8])| {
            if name.len() > FILE_NAME {
                return Err(io::Error::other(format!("a file's name is too long: {name}")));
            }
            let memory = memory("policy", bytes.len())?;
            let mut at = 0;
            while at < bytes.len() {
                at += rustix::io::pwrite(&memory, &bytes[at..], at as u64)?;
            }
            // The seal against all writers is not used: before Linux 6.7 such memory could not be
            // mapped shared.
            seal_from_writers(&memory)?;
            Ok(File { name: (*name).to_owned(), len: bytes.len(), memory })
        };
        let files = files.iter().map(file).collect::<io::Result<_>>()?;
        // The name appears in the log, and a file may have any name.
        let name = control::line(name.as_bytes(), NAME);
        Ok(Source(Arc::new(Inner { name, files })))
    }

    /// The policy's name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    pub(crate) fn files(&self) -> &[File] {
        &self.0.files
    }

    /// True for clones of one another.
    pub(crate) fn is(&self, other: &Source) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// The name of a file that a policy finds by `name`, and by its path.
pub fn file_name(name: &str, path: &Path) -> String {
    format!("{name}={}", path.display())
}

/// The most bytes of a policy's name.
const NAME: usize = 255;
/// The most bytes of a file's name, which may have a path.
const FILE_NAME: usize = NAME + 1 + 1024;
/// The most files of a policy.
pub const MOST: usize = 64;
