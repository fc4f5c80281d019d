//! A policy in a file: its processes while an instance runs.
//!
//! ```text
//!  start ─┬► askers, one a worker
//!         └► thread policies ─► processes    it ends them with it, so it lives on
//!  load, rollback, exec, status ─► the thread
//! ```

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use api::apps::grantor::{Executed, Policies as Shown, Process};
use api::{ErrorKind, Failure};
use policy::ask::Asker;
use policy::cell::{Event, Handle, Settings, Source, Status, Supervisor};
use rustix::thread::CapabilitySet;

use super::read::{File, Granting};
use crate::config::Idle;
use crate::error::{Doing, Error};
use crate::parts::state::{failure, lock};
use crate::threads::Threads;
use crate::{privileges, trusted};

/// A policy's processes.
pub(super) struct Cells {
    file: File,
    handle: Handle,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// How the policy that decides has failed, each way once.
    causes: Arc<Mutex<Vec<String>>>,
}

impl Cells {
    /// Starts the thread and the processes with the policy of the configuration, which serves
    /// then; and who asks. `workers`: how many there are, and what they do without packets.
    ///
    /// # Errors
    /// When it does not load.
    pub fn start(
        file: &File,
        granting: &Granting,
        workers: (usize, Idle),
        threads: &Threads,
    ) -> Result<(Vec<Box<dyn Asker>>, Cells), Error> {
        let made = Supervisor::new(settings(file, granting, workers));
        let (supervisor, handle, desks) = made.doing(|| "make a policy's bell".into())?;
        let askers = desks.into_iter().map(|desk| Box::new(desk) as Box<dyn Asker>).collect();
        let causes = Arc::<Mutex<_>>::default();
        let (said, pulse) = (causes.clone(), threads.pulse(THREAD));
        let run = move || {
            privileges::keep_only(RIGHTS);
            supervisor.run(|event| say(event, &said), || pulse.beat());
        };
        let thread = threads.fatal(THREAD, run).doing(|| "start the thread of policies".into())?;
        let (file, thread) = (file.clone(), Mutex::new(Some(thread)));
        let cells = Cells { file, handle, thread, causes };
        let loaded = cells.load(&cells.file.path);
        loaded.map_err(|refused| Error::asked(&["grantor", "policy"], refused.text))?;
        Ok((askers, cells))
    }

    /// Loads the policy at a path, and the tables of the configuration with it.
    ///
    /// # Errors
    /// When one cannot be read, or it does not begin: then what decides goes on.
    pub fn load(&self, path: &Path) -> Result<(), Failure> {
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
        let mut files = vec![(name.clone().into_owned(), read(path, TEXT)?)];
        let mut most = TABLES;
        for (name, path) in &self.file.tables {
            let table = read(path, most)?;
            most -= table.len() as u64;
            files.push((policy::cell::file_name(name, path), table));
        }
        let files: Vec<_> = files.iter().map(|(name, bytes)| (&**name, &bytes[..])).collect();
        let source = Source::new(&name, &files)
            .map_err(|error| failure(ErrorKind::Internal, format_args!("{name}: {error}")))?;
        self.handle.load(source).map_err(|error| failure(ErrorKind::Invalid, error))
    }

    /// Loads the policy before this one.
    ///
    /// # Errors
    /// When there is none, or it does not begin.
    pub fn rollback(&self) -> Result<(), Failure> {
        self.handle.rollback().map_err(|error| failure(ErrorKind::Invalid, error))
    }

    /// Runs a chunk in every process's state.
    ///
    /// # Errors
    /// When it is too long.
    pub fn exec(&self, chunk: &str) -> Result<Vec<Executed>, Failure> {
        let ran = self.handle.exec(chunk);
        let ran = ran.map_err(|error| failure(ErrorKind::Invalid, error))?;
        let one = |one: policy::cell::Executed| {
            let (result, failed) = match one.result {
                Ok(text) => (text, false),
                Err(text) => (text, true),
            };
            Executed { pid: one.pid, failed, result }
        };
        Ok(ran.into_iter().map(one).collect())
    }

    /// How it is.
    pub fn status(&self) -> Result<Status, Failure> {
        self.handle.status().map_err(|error| failure(ErrorKind::Internal, error))
    }

    /// The policy that decides.
    pub fn describe(&self) -> String {
        let status = self.status().ok();
        status.and_then(|status| status.policy).unwrap_or_else(|| "none".into())
    }

    /// For `show`.
    pub fn show(&self) -> Result<Shown, Failure> {
        let status = self.status()?;
        let process = |one: policy::cell::ProcessStatus| Process {
            pid: one.pid,
            policy: one.policy,
            stage: one.stage.into(),
            asked: one.counts.asked,
            decided: one.counts.decided,
            failed: one.counts.failed,
            lost: one.counts.lost,
            refused: one.counts.refused,
        };
        Ok(Shown {
            policy: status.policy.unwrap_or_default(),
            before: status.before,
            loading: status.loading,
            processes: status.processes.into_iter().map(process).collect(),
            asked: status.counts.asked,
            decided: status.counts.decided,
            failed: status.counts.failed,
            lost: status.counts.lost,
            refused: status.counts.refused,
            full: status.full,
            failures: status.failures as u64,
            roll_back_at: self.file.failures as u64,
            restarts: status.restarts,
            rollbacks: status.rollbacks,
            causes: lock(&self.causes).clone(),
            missing: status.missing,
            remarks: status.remarks,
        })
    }

    /// Ends the thread, and all processes with it.
    pub fn end(&self) {
        self.handle.stop();
        if let Some(thread) = lock(&self.thread).take() {
            let _ = thread.join(); // a panic there has been reported already
        }
    }
}

impl Drop for Cells {
    fn drop(&mut self) {
        self.end();
    }
}

/// The contents of a file for a policy's processes.
fn read(path: &Path, most: u64) -> Result<Vec<u8>, Failure> {
    let read = trusted::anybodys(path, most);
    read.map_err(|error| failure(ErrorKind::Invalid, format_args!("{}: {error}", path.display())))
}

/// The settings of the processes, of which each polls for ever where the workers do.
pub(super) fn settings(
    file: &File,
    granting: &Granting,
    (workers, idle): (usize, Idle),
) -> Settings {
    let usual = Settings::default();
    Settings {
        spin: usual.spin.filter(|_| idle == Idle::Adaptive),
        engines: file.engines.clone(),
        processes: file.processes,
        workers,
        depth: granting.asked as u32,
        captured: granting.question as u32,
        limit: Duration::from_millis(file.batch_ms),
        load: Duration::from_millis(file.load_ms),
        memory: file.memory_mib << 20,
        instead: granting.on_limit.0,
        failures: file.failures,
        ..usual
    }
}

/// Logs what happens, and keeps causes of failures for `show`.
fn say(event: Event, causes: &Mutex<Vec<String>>) {
    match &event {
        Event::Serves { .. } => tracing::info!("grantor: {event}"),
        Event::Failed { policy, cause } => {
            tracing::warn!("grantor: {event}");
            let mut causes = lock(causes);
            if causes.len() == CAUSES {
                causes.remove(0);
            }
            causes.push(format!("{policy}: {cause}"));
        }
        Event::RolledBack { .. } | Event::NothingBefore { .. } | Event::System { .. } => {
            tracing::error!("grantor: {event}");
        }
        Event::TooManyCauses { .. } | Event::NotShutIn { .. } => tracing::warn!("grantor: {event}"),
    }
}

/// What its thread does with root's rights: it starts processes, which become others' and shut
/// themselves in, and ends them.
pub(super) const RIGHTS: CapabilitySet = CapabilitySet::SETUID
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SYS_CHROOT)
    .union(CapabilitySet::SETPCAP);
/// Bytes of a policy's text, at most.
const TEXT: u64 = 16 << 20;
/// Bytes of its tables together: one with the routes of all peers of a large exchange has less.
const TABLES: u64 = 1 << 30;
/// Its name.
const THREAD: &str = "policies";
/// Causes that are kept, the latest.
const CAUSES: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing that a path can lead to keeps the router waiting, or takes its memory.
    #[test]
    fn what_is_no_file_is_refused() {
        let folder = std::env::temp_dir().join(format!("rutter-cells-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let refused = |path: &Path, most| read(path, most).unwrap_err().text;
        let (fifo, file, link) = (folder.join("fifo"), folder.join("file"), folder.join("link"));
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, mode).unwrap();
        std::fs::write(&file, "four").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        for path in [&fifo, &folder, Path::new("/dev/zero")] {
            assert_eq!(refused(path, 8), format!("{}: it is not a regular file", path.display()));
        }
        assert_eq!(refused(&file, 3), format!("{}: longer than 3 bytes", file.display()));
        assert_eq!(
            (read(&file, 4).unwrap(), read(&link, 4).unwrap()),
            (b"four".to_vec(), b"four".to_vec())
        );
        assert!(refused(&folder.join("none"), 8).contains("No such file"));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
