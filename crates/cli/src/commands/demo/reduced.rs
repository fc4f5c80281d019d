//! The demo without any privilege: files are the ports, static routes the table.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use api::{Client, Reply, Request, What};

use super::net::failed;
use crate::context::Context;
use crate::error::Error;
use crate::status::Status;

/// Runs it.
///
/// # Errors
/// When a file cannot be written, or the router does not start.
pub fn run(stop: &Arc<AtomicBool>, cx: &mut Context) -> Result<Status, Error> {
    let dir = std::env::temp_dir().join(format!("rutter-demo-{}-files", std::process::id()));
    super::net::own_folder(&dir)?;
    let done = inside(&dir, stop, cx);
    let _ = std::fs::remove_dir_all(&dir); // nothing else is left behind
    done.map(|()| Status::Success)
}

fn inside(dir: &Path, stop: &AtomicBool, cx: &mut Context) -> Result<(), Error> {
    if !cx.json {
        writeln!(cx.out, "A router between two capture files, without privileges.")?;
        writeln!(cx.out, "Left out: {}.", LEFT_OUT.join(", "))?;
    }
    let (input, output) = (dir.join("in.pcap"), dir.join("out.pcap"));
    std::fs::write(&input, capture())?;
    let config = dir.join("rutter.toml");
    std::fs::write(&config, configuration(&input, &output))?;
    let socket = dir.join("api.sock");
    let mut router = Command::new(std::env::current_exe()?)
        .arg("--socket")
        .arg(&socket)
        .args(["run", "--config"])
        .arg(&config)
        .stdin(Stdio::null())
        .stderr(std::fs::File::create(dir.join("rutter.log"))?)
        .spawn()?;
    let shown = show(&socket, stop);
    let stopped =
        Client::connect(&socket).and_then(|mut c| c.call(&Request::Stop { remove: false }));
    if stopped.is_err() {
        let _ = router.kill(); // it did not start
    }
    let _ = router.wait();
    let shown = shown.map_err(|error| match error {
        Error::Interrupted => error,
        error => failed(
            "the router",
            format!(
                "{error}\n{}",
                std::fs::read_to_string(dir.join("rutter.log")).unwrap_or_default()
            ),
        ),
    })?;
    let written = std::fs::metadata(&output)?.len();
    if cx.json {
        let nodes = shown.0;
        return cx.print_json(&serde_json::json!({
            "reduced": true, "left_out": LEFT_OUT, "nodes": nodes, "written_bytes": written,
        }));
    }
    writeln!(cx.out, "\n{}", shown.1)?;
    Ok(writeln!(cx.out, "{written} bytes of routed packets were written.")?)
}

/// Waits until all packets went through; returns the graph's nodes and their drawing.
fn show(socket: &Path, stop: &AtomicBool) -> Result<(Vec<api::reply::Node>, String), Error> {
    let start = Instant::now();
    loop {
        if stop.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        let graph = Client::connect(socket).and_then(|mut client| {
            client.call(&Request::Show { what: What::Graph { all: false } })
        });
        match graph {
            Ok(Reply::Graph { nodes, drawing })
                if nodes.iter().any(|node| node.name == "output" && node.packets >= PACKETS) =>
            {
                return Ok((nodes, drawing));
            }
            Ok(_) | Err(_) if start.elapsed() < PATIENCE => {}
            Ok(_) => return Err(failed("the packets", "they do not come through")),
            Err(error) => return Err(error.into()),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn configuration(input: &Path, output: &Path) -> String {
    format!(
        "workers = [0]
[ports.p0]
device = \"pcap:{},\"
mac = \"02:00:00:00:00:01\"
addresses = [\"10.0.1.1/24\"]
[ports.p1]
device = \"pcap:,{}\"
mac = \"02:00:00:00:00:02\"
addresses = [\"10.0.2.1/24\"]
[[route]]
prefix = \"10.9.0.0/16\"
via = \"10.0.2.2\"
[[neighbour]]
interface = \"p1\"
address = \"10.0.2.2\"
mac = \"02:00:00:00:00:77\"
",
        input.display(),
        output.display()
    )
}

/// A classic pcap file of UDP packets to 10.9.0.0/16.
fn capture() -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65535, 1] {
        file.extend(word.to_le_bytes());
    }
    for i in 0..PACKETS as u32 {
        let frame = frame(i as u16);
        for word in [0, i, frame.len() as u32, frame.len() as u32] {
            file.extend(word.to_le_bytes());
        }
        file.extend(frame);
    }
    file
}

fn frame(i: u16) -> Vec<u8> {
    let [high, low] = i.to_be_bytes();
    let mut ip = vec![0x45, 0, 0, 46, high, low, 0, 0, 64, 17, 0, 0, 10, 0, 1, 2, 10, 9, high, low];
    let words = ip.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let sum = words.sum::<u32>();
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0x99, 8, 0];
    frame.extend(ip);
    frame.extend([0, 1, 0, 9, 0, 26, 0, 0]);
    frame.extend([0; 18]);
    frame
}

const LEFT_OUT: [&str; 6] = [
    "hosts",
    "BIRD and BGP",
    "the full table",
    "ping and traceroute",
    "ARP",
    "the kernel's slow path",
];
const PACKETS: u64 = 10_000;
const PATIENCE: Duration = Duration::from_secs(30);
