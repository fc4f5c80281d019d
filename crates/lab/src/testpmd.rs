//! DPDK's own forwarder, `dpdk-testpmd`, as a variant: what moving packets from
//! port to port costs when nothing is looked up. Between slices it is stopped.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::clock;
use crate::peer::Peer;
use crate::slices::{Sample, Work};

/// A running `dpdk-testpmd` between two `net_null` ports.
pub struct Testpmd {
    peer: Peer,
    /// The kernel's account of the forwarding thread's processor time.
    schedstat: String,
}

impl Testpmd {
    /// Starts it, forwarding on `core` as `mode` says (`io`, `mac`), in bursts of 256 as the
    /// router, and with room for two of them in each cache of buffers: 1.05 × its rate in bursts of 64.
    ///
    /// # Errors
    /// When it is not installed, or does not start: the text says which.
    pub fn start(mode: &str, core: usize) -> Result<Testpmd, String> {
        let control = clock::cores()[0];
        let mut command = Command::new("stdbuf");
        // Into a pipe it would keep its answers until a buffer is full.
        command.args(["-oL", "dpdk-testpmd"]);
        command.arg("-l").arg(format!("{control},{core}"));
        if control == core {
            return Err("one core: there is none for its control thread".into());
        }
        command.args(["--no-pci", "--no-shconf", "--no-telemetry"]);
        command.args(memory_args());
        command.args(["--vdev", "net_null0", "--vdev", "net_null1", "--", "-i", "--nb-cores=1"]);
        command.arg(format!("--forward-mode={mode}"));
        command.args([
            "--burst=256",
            "--mbcache=512",
            "--total-num-mbufs=16384",
            "--no-lsc-interrupt",
        ]);
        let missing = "dpdk-testpmd does not start (Debian: apt-get install dpdk-dev)";
        let peer = Peer::start(command).map_err(|error| format!("{missing}: {error}"))?;
        let mut testpmd = Testpmd { peer, schedstat: String::new() };
        // It answers commands once it is up.
        testpmd
            .peer
            .say("start")
            .and_then(|()| testpmd.packets())
            .map_err(|reason| format!("{missing}: {reason}"))?;
        let tid = testpmd.worker().ok_or("dpdk-testpmd has no worker thread")?;
        testpmd.schedstat = format!("/proc/{}/task/{tid}/schedstat", testpmd.peer.id());
        Ok(testpmd)
    }

    /// Forwards for about `target` of its thread's processor time.
    fn forward(&mut self, target: Duration) -> Result<Sample, String> {
        let (start, before) = (Instant::now(), self.processor_time());
        self.peer.say("start")?;
        while self.processor_time() - before < target && start.elapsed() < 50 * target {
            thread::sleep(target / 8);
        }
        let ops = self.packets()?;
        Ok(Sample { ops, time: self.processor_time() - before, ..Sample::default() })
    }

    /// Stops forwarding; the packets received since it started.
    fn packets(&mut self) -> Result<u64, String> {
        self.peer.say("stop")?;
        let (mut packets, mut all_ports) = (0, false);
        loop {
            let line = self.peer.line()?;
            all_ports |= line.contains("Accumulated forward statistics");
            if all_ports && let Some((_, rest)) = line.split_once("RX-packets:") {
                let number = rest.split_whitespace().next().and_then(|n| n.parse().ok());
                packets = number.unwrap_or(0);
            }
            if line.starts_with("Done.") {
                return Ok(packets);
            }
        }
    }

    /// The thread that forwards: DPDK names workers by their core.
    fn worker(&self) -> Option<String> {
        let folder = format!("/proc/{}/task", self.peer.id());
        let tasks = fs::read_dir(folder).ok()?.flatten();
        let is_worker = |path: &std::path::Path| {
            let name = fs::read_to_string(path.join("comm")).unwrap_or_default();
            name.contains("worker") // rte-worker-1, lcore-worker-1, dpdk-worker1
        };
        let mut workers = tasks.filter(|task| is_worker(&task.path()));
        Some(workers.next()?.file_name().to_string_lossy().into_owned())
    }

    fn processor_time(&self) -> Duration {
        let text = fs::read_to_string(&self.schedstat).unwrap_or_default();
        let nanos = text.split_whitespace().next().and_then(|n| n.parse().ok());
        Duration::from_nanos(nanos.unwrap_or(0))
    }
}

impl Work for Testpmd {
    fn slice(&mut self, target: Duration) -> Sample {
        // Its start and stop take a while: longer slices make them small. One that
        // has ended has no figure.
        self.forward(target.max(SHORTEST)).unwrap_or_default()
    }
}

impl Drop for Testpmd {
    fn drop(&mut self) {
        // It leaves nothing behind when it ends by itself.
        if self.peer.say("quit").is_ok() {
            thread::sleep(Duration::from_millis(200));
        }
    }
}

/// How DPDK gets memory here: huge pages where some are free, else ordinary ones.
pub fn memory_args() -> &'static [&'static str] {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let free = meminfo.lines().find_map(|line| line.strip_prefix("HugePages_Free:"));
    let free: u64 = free.and_then(|n| n.trim().parse().ok()).unwrap_or(0);
    if free >= HUGEPAGES_NEEDED { &["--in-memory"] } else { &["--no-huge", "-m", "512"] }
}

const SHORTEST: Duration = Duration::from_millis(20);
/// 512 MiB of pages of 2 MiB.
const HUGEPAGES_NEEDED: u64 = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_forwards_between_start_and_stop() {
        let core = *clock::cores().last().unwrap();
        let mut testpmd = match Testpmd::start("io", core) {
            Ok(testpmd) => testpmd,
            Err(reason) => return testing::skip(format_args!("no testpmd: {reason}")),
        };
        let sample = testpmd.slice(Duration::from_millis(20));
        assert!(sample.ops > 1000 && sample.time > Duration::ZERO, "{sample:?}");
    }
}
