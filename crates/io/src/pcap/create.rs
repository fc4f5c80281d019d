//! A file to write packets to, where others may have planted something.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Makes the file `path`, or empties it. Others may be able to write to its folder, as to
/// `/tmp`; so that they do not choose what is overwritten or read along, it must be
/// no link, has to belong to root or to whom this process works for, and has no other
/// name. A pipe or device may be there, too.
///
/// # Errors
/// When it is not so, and the system's.
pub fn create(path: impl AsRef<Path>) -> Result<File> {
    let path = path.as_ref();
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    // The shell's: links, but of our own process.
    if OWN.iter().any(|own| path.starts_with(own)) {
        return options.open(path);
    }
    options.custom_flags(libc::O_NOFOLLOW);
    let file = options.open(path).map_err(|error| match error.raw_os_error() {
        Some(libc::ELOOP) => refused("it is a link"),
        _ => error,
    })?;
    let found = file.metadata()?;
    vet(&found)?;
    if found.is_file() {
        file.set_len(0)?;
    }
    Ok(file)
}

/// Whether an open file, which was reached by no link, is nobody else's.
///
/// # Errors
/// Why not.
pub fn vet(found: &Metadata) -> Result<()> {
    // SAFETY: it has no preconditions.
    let us = unsafe { libc::geteuid() };
    if ![0, us].contains(&found.uid()) && !found.file_type().is_char_device() {
        return Err(refused(&format!("it belongs to user {}", found.uid())));
    }
    if found.is_file() && found.nlink() > 1 {
        return Err(refused("it has another name, too"));
    }
    Ok(())
}

fn refused(why: &str) -> Error {
    let text = format!("{why}: others may have put it there; take it away or name another");
    Error::new(ErrorKind::PermissionDenied, text)
}

/// What a shell calls a process's own descriptors.
const OWN: [&str; 4] = ["/dev/fd", "/dev/stdout", "/dev/stderr", "/proc/self/fd"];
