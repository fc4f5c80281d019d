//! Kernel settings (`/proc/sys`, and those of [`netdev`]) that are changed for the time of a run, and
//! restored at its end. What they were is also kept in a file beside the API's
//! socket: an instance that was killed is cleaned up after by the next, which believes
//! what is there only where nobody else can have written it ([`crate::trusted`]).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::netdev;
use crate::trusted;

/// Settings changed so far.
pub struct Settings {
    changed: Vec<Changed>,
    record: PathBuf,
    root: PathBuf,
}

/// One changed setting.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Changed {
    /// Path below `/proc/sys`: `net/ipv4/conf/p0/forwarding`; or `link/eth1/mtu`.
    pub name: String,
    /// Before.
    pub was: String,
    /// Now.
    pub is: String,
}

impl Settings {
    /// No changes yet; those that a killed instance left in `record` are taken
    /// over, so that they are restored in the end.
    ///
    /// # Errors
    /// When what is at `record` may be another's.
    pub fn new(record: &Path) -> io::Result<Settings> {
        Settings::below(record, Path::new("/proc/sys"))
    }

    fn below(record: &Path, root: &Path) -> io::Result<Settings> {
        let text = trusted::read(record)?.unwrap_or_default();
        let changed = text.lines().filter_map(Changed::parse).collect();
        Ok(Settings { changed, record: record.into(), root: root.into() })
    }

    /// Changes a setting.
    ///
    /// # Errors
    /// When it does not exist or the kernel refuses.
    pub fn set(&mut self, name: &str, value: &str) -> io::Result<()> {
        let present = self.get(name)?;
        let known = self.changed.iter().position(|changed| changed.name == name);
        if present == value {
            return Ok(());
        }
        match known {
            Some(i) => self.changed[i].is = value.into(),
            None => {
                let (name, is) = (name.to_string(), value.to_string());
                self.changed.push(Changed { name, was: present, is });
            }
        }
        // Recorded first: killed in between, the next instance restores too much,
        // not too little.
        self.write_record()?;
        write(&self.root, name, value)
    }

    /// Sets what was changed below `prefix` once more: the kernel gives a link new
    /// settings where it has taken the old ones away.
    pub fn renew(&self, prefix: &str) {
        for changed in self.changed.iter().filter(|changed| changed.name.starts_with(prefix)) {
            // It may be gone for good.
            let _ = write(&self.root, &changed.name, &changed.is);
        }
    }

    /// The value of a setting now.
    ///
    /// # Errors
    /// When it does not exist.
    pub fn get(&self, name: &str) -> io::Result<String> {
        read(&self.root, name)
    }

    /// The changed settings.
    pub fn changed(&self) -> &[Changed] {
        &self.changed
    }

    /// Puts everything back, the last first. Settings of interfaces that are
    /// gone, and those that somebody else has changed since, are left alone.
    pub fn restore(&mut self) -> Vec<(String, io::Error)> {
        let mut failed = Vec::new();
        for changed in self.changed.drain(..).rev() {
            if read(&self.root, &changed.name).unwrap_or_default() != changed.is {
                continue;
            }
            match write(&self.root, &changed.name, &changed.was) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    failed.push((changed.name, error));
                }
                _ => {}
            }
        }
        let _ = fs::remove_file(&self.record); // it need not be there
        failed
    }

    fn write_record(&self) -> io::Result<()> {
        let lines: Vec<_> = self.changed.iter().map(Changed::line).collect();
        trusted::write(&self.record, &lines.concat())
    }
}

fn read(root: &Path, name: &str) -> io::Result<String> {
    match name.strip_prefix(OF_LINK) {
        Some(setting) => netdev::get(setting),
        None => Ok(fs::read_to_string(root.join(name))?.trim().to_string()),
    }
}

fn write(root: &Path, name: &str, value: &str) -> io::Result<()> {
    match name.strip_prefix(OF_LINK) {
        Some(setting) => netdev::set(setting, value),
        None => fs::write(root.join(name), value),
    }
}

/// Prefixes of the names of interfaces' own settings.
const OF_LINK: &str = "link/";

impl Changed {
    fn line(&self) -> String {
        format!("{}\t{}\t{}\n", self.name, self.was, self.is)
    }

    fn parse(line: &str) -> Option<Changed> {
        let mut fields = line.split('\t').map(str::to_string);
        let (name, was, is) = (fields.next()?, fields.next()?, fields.next()?);
        let known = name.starts_with("net/") || name.starts_with(OF_LINK);
        let inside = known && !name.contains("..");
        inside.then_some(Changed { name, was, is })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_changed_is_restored_also_by_the_next_instance() {
        let dir = std::env::temp_dir().join(format!("rutter-settings-{}", std::process::id()));
        fs::create_dir_all(dir.join("net")).unwrap();
        let record = dir.join("record");
        let read = |name: &str| fs::read_to_string(dir.join(name)).unwrap();
        for name in ["net/a", "net/b", "net/c"] {
            fs::write(dir.join(name), "0\n").unwrap();
        }
        let mut first = Settings::below(&record, &dir).unwrap();
        first.set("net/a", "1").unwrap();
        first.set("net/b", "1").unwrap();
        first.set("net/b", "2").unwrap();
        first.set("net/c", "0").unwrap();
        assert_eq!(first.changed().len(), 2);
        assert!(first.set("net/none", "1").is_err());
        fs::write(dir.join("net/b"), "0\n").unwrap();
        first.renew("net/c");
        assert_eq!(read("net/b").trim(), "0");
        first.renew("net/b");
        assert_eq!(read("net/b").trim(), "2");
        drop(first); // killed
        fs::write(dir.join("net/a"), "7\n").unwrap(); // somebody else's
        let mut second = Settings::below(&record, &dir).unwrap();
        assert_eq!(second.changed().len(), 2);
        assert!(second.restore().is_empty());
        assert_eq!((read("net/a").trim(), read("net/b").trim()), ("7", "0"));
        assert!(!record.exists());
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_record_of_somebody_else_s_is_refused() {
        let dir = crate::trusted::tests::own_folder("record");
        fs::create_dir(dir.join("net")).unwrap();
        fs::write(dir.join("net/a"), "1\n").unwrap();
        let (record, planted) = (dir.join("record"), dir.join("planted"));
        fs::write(&planted, "net/a\t0\t1\n").unwrap();
        std::os::unix::fs::symlink(&planted, &record).unwrap();
        assert!(Settings::below(&record, &dir).is_err());
        if rustix::process::geteuid().is_root() {
            fs::remove_file(&record).unwrap();
            fs::copy(&planted, &record).unwrap();
            std::os::unix::fs::chown(&record, Some(65534), None).unwrap();
            let said = Settings::below(&record, &dir).err().unwrap().to_string();
            assert!(said.contains("belongs to user 65534"), "{said}");
        }
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_damaged_record_names_nothing_outside() {
        assert_eq!(Changed::parse("net/../../etc/passwd\ta\tb"), None);
        assert_eq!(Changed::parse("/etc/passwd\ta\tb"), None);
        assert_eq!(Changed::parse("net/x\ta"), None);
    }
}
