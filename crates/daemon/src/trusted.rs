//! Folders and files that nobody else can have put something into: what goes with the
//! API's socket lies there.
//!
//! A folder is trusted where, from the root of the file system on, each folder of its path
//! is root's or our own, no link, and nobody else may write to it. Of those on the way
//! there one may be for all, if it is sticky as `/tmp` is: what is ours in it stays.
//! Nobody but root and us can then change the path, so what holds when it is looked at
//! holds for the whole run, and paths may be used as they are. A file could be there from
//! before: it is opened without following links, and has to be ours, too.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

/// Opens what a user names to write packets to; in whatever folder.
pub use ::io::pcap::create as output;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, fstat, mkdirat, openat, statat};
use rustix::io::Errno;

/// Looks at the folder `path`, and makes what is missing of it.
///
/// # Errors
/// When it is not trusted: which part of it, why, and what to do.
pub fn folder(path: &Path) -> io::Result<()> {
    walk(path, false)
}

/// Looks at the folder in which the file `path` is to be written. It may be for all, as
/// `/tmp` is: whoever opens the file there looks at that ([`output`]).
///
/// # Errors
/// As of [`folder`].
pub fn target(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => walk(dir, true),
        _ => walk(Path::new("."), true),
    }
}

fn walk(path: &Path, may_be_shared: bool) -> io::Result<()> {
    let path = std::path::absolute(path)?;
    let parts: Vec<_> = path.components().collect();
    let mut so_far = PathBuf::from("/");
    let mut at = openat(CWD, "/", FOLDER, Mode::empty())?;
    for (i, part) in parts.iter().enumerate() {
        so_far.push(part);
        if *part != Component::RootDir {
            at = enter(&at, part, &so_far)?;
        }
        let stat = fstat(&at)?;
        let is_last = i + 1 == parts.len() && !may_be_shared;
        let own = is_own(&stat);
        let shared = others_write(&stat) && (is_last || stat.st_mode & STICKY == 0);
        if !own || shared {
            let who = if own { "others can write to it".into() } else { owner(&stat) };
            return Err(refusal(&so_far, &who, "name one that only root and you can write to"));
        }
    }
    Ok(())
}

/// Opens the file `path` of a trusted folder, makes it where it is missing.
///
/// # Errors
/// The system's; when it is a link, another's, or no file.
pub fn create(path: &Path) -> io::Result<File> {
    open(path, OFlags::RDWR | OFlags::CREATE)
}

/// What the file `path` of a trusted folder holds; `None` where there is none.
///
/// # Errors
/// As of [`create`]; when it is no text.
pub fn read(path: &Path) -> io::Result<Option<String>> {
    let mut text = String::new();
    match open(path, OFlags::RDONLY) {
        Ok(mut file) => file.read_to_string(&mut text).map(|_| Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// What the file `path` holds, of `most` bytes at most; its folder may be for all, as [`target`]'s.
///
/// # Errors
/// The system's; when it is a link, another's, no file, or longer.
pub fn bytes(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    // A folder that is missing is not to be made.
    if std::fs::symlink_metadata(path)?.len() > most {
        return Err(io::Error::other(format!("longer than {most} bytes")));
    }
    target(path)?;
    up_to(open(path, OFlags::RDONLY)?, most)
}

/// What the file `path` holds, of `most` bytes at most, whoever's it is and behind links, too:
/// for what is trusted with nothing.
///
/// # Errors
/// The system's; when it is no file, or longer.
pub fn anybodys(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    // A pipe would be waited for, and a device has no end.
    let file = openat(CWD, path, OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty())?;
    if FileType::from_raw_mode(fstat(&file)?.st_mode) != FileType::RegularFile {
        return Err(io::Error::other("it is not a regular file"));
    }
    up_to(File::from(file), most)
}

/// All that a file holds; it may grow meanwhile.
fn up_to(file: File, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = file.take(most + 1).read_to_end(&mut bytes)?;
    if read as u64 > most {
        return Err(io::Error::other(format!("longer than {most} bytes")));
    }
    Ok(bytes)
}

/// Writes `text` into the file `path` of a trusted folder, over what it held.
///
/// # Errors
/// As of [`create`].
pub fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut file = create(path)?;
    file.set_len(0)?;
    file.write_all(text.as_bytes())
}

fn open(path: &Path, how: OFlags) -> io::Result<File> {
    // What is no file might be waited for.
    let safe = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let advice = "remove it, or name another place";
    let opened = match openat(CWD, path, how | safe, Mode::RUSR | Mode::WUSR) {
        Err(Errno::LOOP) => return Err(refusal(path, "it is a link", advice)),
        opened => opened?,
    };
    let stat = fstat(&opened)?;
    let why = if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        "it is not a regular file"
    } else if !is_own(&stat) {
        return Err(refusal(path, &owner(&stat), advice));
    } else if others_write(&stat) {
        "others can write to it"
    } else if stat.st_nlink > 1 {
        "it has another name (a hard link)"
    } else {
        return Ok(File::from(opened));
    };
    Err(refusal(path, why, advice))
}

/// The folder `part` of `at`; made where there is nothing.
fn enter(at: &impl AsFd, part: &Component<'_>, path: &Path) -> io::Result<OwnedFd> {
    let name = part.as_os_str();
    let opened = match openat(at, name, FOLDER, Mode::empty()) {
        Err(Errno::NOENT) => {
            match mkdirat(at, name, Mode::from_raw_mode(0o755)) {
                Err(error) if error != Errno::EXIST => return Err(error.into()),
                _ => {}
            }
            openat(at, name, FOLDER, Mode::empty())
        }
        opened => opened,
    };
    let is_link = || {
        let stat = statat(at, name, AtFlags::SYMLINK_NOFOLLOW);
        stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
    };
    match opened {
        Err(Errno::LOOP | Errno::NOTDIR) if is_link() => {
            Err(refusal(path, "it is a link", "name the folder that it leads to"))
        }
        opened => Ok(opened?),
    }
}

/// Root's or our own. In a user namespace root has no number; whose the root of the file
/// system is, he is meant.
fn is_own(stat: &Stat) -> bool {
    let us = rustix::process::geteuid().as_raw();
    let root = statat(CWD, "/", AtFlags::empty()).map_or(0, |root| root.st_uid);
    [0, us, root].contains(&stat.st_uid)
}

fn owner(stat: &Stat) -> String {
    format!("it belongs to user {}", stat.st_uid)
}

/// Whether others may write to it: not root's group, nor our own.
fn others_write(stat: &Stat) -> bool {
    let group = [0, rustix::process::getegid().as_raw()].contains(&stat.st_gid);
    stat.st_mode & 0o002 != 0 || stat.st_mode & 0o020 != 0 && !group
}

fn refusal(path: &Path, why: &str, advice: &str) -> io::Error {
    let text = format!("{} is not safe: {why}; {advice}", path.display());
    io::Error::new(ErrorKind::PermissionDenied, text)
}

const FOLDER: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const STICKY: u32 = 0o1000;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::fs::{Permissions, create_dir, remove_dir_all, set_permissions};
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    /// A folder of the test's own.
    pub(crate) fn own_folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("rutter-{name}-{}", std::process::id()));
        let _ = remove_dir_all(&path); // of a run that was killed
        create_dir(&path).unwrap();
        set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn why(result: io::Result<impl Sized>) -> String {
        result.err().map_or_else(|| "taken".into(), |error| error.to_string())
    }

    #[test]
    fn folders_that_others_can_change_are_refused() {
        let top = own_folder("folders");
        folder(&top).unwrap();
        folder(&top.join("made/now")).unwrap();
        assert!(top.join("made/now").is_dir());
        assert!(why(folder(Path::new("/tmp"))).contains("/tmp is not safe: others can write"));
        symlink("made", top.join("link")).unwrap();
        assert!(why(folder(&top.join("link/now"))).contains("link is not safe: it is a link"));
        assert!(why(folder(&top.join("link"))).contains("it leads to"));
        for (mode, safe) in [(0o777, false), (0o1777, true), (0o757, false), (0o775, true)] {
            set_permissions(top.join("made"), Permissions::from_mode(mode)).unwrap();
            assert_eq!(folder(&top.join("made/now")).is_ok(), safe, "{mode:o} on the way");
            let said = why(folder(&top.join("made/now/../..")));
            assert_eq!(said == "taken", safe, "{said}");
        }
        std::fs::write(top.join("file"), "").unwrap();
        assert!(folder(&top.join("file/below")).is_err());
        if rustix::process::geteuid().is_root() {
            set_permissions(top.join("made"), Permissions::from_mode(0o775)).unwrap();
            chown(top.join("made"), None, Some(65534)).unwrap();
            assert!(why(folder(&top.join("made"))).contains("others can write"));
            chown(top.join("made"), Some(65534), None).unwrap();
            assert!(why(folder(&top.join("made/now"))).contains("belongs to user 65534"));
        }
        remove_dir_all(&top).unwrap();
    }

    #[test]
    fn files_that_others_have_planted_are_refused() {
        let top = own_folder("files");
        let (victim, file) = (top.join("victim"), top.join("file"));
        std::fs::write(&victim, "kept").unwrap();
        assert_eq!(read(&file).unwrap(), None);
        write(&file, "longer").unwrap();
        write(&file, "own").unwrap();
        assert_eq!(read(&file).unwrap().as_deref(), Some("own"));
        symlink(&victim, top.join("link")).unwrap();
        symlink(top.join("nothing"), top.join("empty")).unwrap();
        for link in ["link", "empty"] {
            assert!(why(write(&top.join(link), "x")).contains("it is a link"));
            assert!(why(read(&top.join(link))).contains("it is a link"));
        }
        std::fs::hard_link(&victim, top.join("second")).unwrap();
        assert!(why(write(&top.join("second"), "x")).contains("another name"));
        set_permissions(&file, Permissions::from_mode(0o666)).unwrap();
        assert!(why(read(&file)).contains("others can write"));
        assert!(why(create(&top)).contains("directory"));
        if rustix::process::geteuid().is_root() {
            set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
            chown(&file, Some(65534), None).unwrap();
            assert!(why(read(&file)).contains("belongs to user 65534"));
        }
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "kept");
        assert!(!top.join("nothing").exists());
        remove_dir_all(&top).unwrap();
    }
}
