//! `rutter demo`: a complete network on this machine.
//!
//! ```text
//!  host a 10.0.1.2 ── p0 ┐                       ┌ p2 ── upstream 10.0.3.2: BIRD, BGP,
//!                        │ router: rutter + BIRD │       a full table
//!  host b 10.0.2.2 ── p1 ┘                       └
//! ```

mod bird;
mod net;
mod reduced;
mod shield;
mod steps;
mod switch;
mod traffic;

use std::io::Write;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::context::Context;
use crate::error::Error;
use crate::status::Status;
use crate::warn::warn;

/// Show a complete router on this machine: hosts, BGP with a full table, traffic; a switch, a shield
#[derive(clap::Args)]
#[command(after_help = "\
The demo makes network namespaces for two hosts, an upstream provider and a router.
The upstream's BIRD announces a generated table shaped like the Internet's. Once the
table is in the data plane, the demo pings, traceroutes and sends traffic through it,
and prints the cost. It then shows two switches with a trunk between them, with a
table of 64,000,000 stations if there is enough memory. The last part is a shield that
holds off a flood while clients load a page. At the end, also when it is interrupted,
the demo removes everything that it has made.

Without root, it runs in a user namespace. Where those are not allowed, a reduced demo
reads and writes capture files.")]
pub struct Args {
    /// A smaller table: 50,000 IPv4 and 10,000 IPv6 prefixes
    #[arg(long)]
    quick: bool,
    /// Seconds of traffic
    #[arg(long, value_name = "S", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Only what works without any privilege: files instead of a network
    #[arg(long)]
    reduced: bool,
    /// Used by the demo itself: sends packets to the addresses in this file
    #[arg(long, hide = true, value_name = "FILE")]
    send: Option<PathBuf>,
    /// Used by the demo itself: takes part in its shield
    #[arg(long, hide = true, value_enum)]
    actor: Option<shield::Actor>,
    /// Used by the demo itself: the client's address
    #[arg(long, hide = true, default_value_t = Ipv4Addr::UNSPECIFIED)]
    from: Ipv4Addr,
}

/// How large the demo is.
#[derive(Clone, Copy)]
pub struct Size {
    /// IPv4 prefixes.
    pub v4: usize,
    /// IPv6 prefixes.
    pub v6: usize,
    /// Seconds of traffic.
    pub seconds: u64,
    /// Stations of the switch's table.
    pub stations: usize,
}

/// Runs it.
pub fn run(args: Args, cx: &mut Context) -> Result<Status, Error> {
    if let Some(file) = args.send {
        return traffic::send(&file, args.seconds);
    }
    if let Some(actor) = args.actor {
        return shield::act(actor, args.from, args.seconds);
    }
    let (v4, v6) = if args.quick { (50_000, 10_000) } else { (1_000_000, 200_000) };
    let stations = if args.quick { 1_000_000 } else { 64_000_000 };
    let size = Size { v4, v6, seconds: args.seconds, stations };
    let stop = interruptible(cx)?;
    if args.reduced {
        return reduced::run(&stop, cx);
    }
    match place() {
        Place::Here => {
            for part in [steps::run, switch::run, shield::run] {
                match part(size, &stop, cx)? {
                    Status::Success => {}
                    other => return Ok(other),
                }
            }
            Ok(Status::Success)
        }
        Place::UserNamespace => in_user_namespace(&args_again(args.quick, size)),
        Place::Nowhere(why) => {
            warn(format_args!("{why}: a reduced demo without a network follows"));
            reduced::run(&stop, cx)
        }
    }
}

/// Where the demo can run.
enum Place {
    /// Network namespaces can be made.
    Here,
    /// They can in a user namespace.
    UserNamespace,
    /// Neither, and why.
    Nowhere(String),
}

fn place() -> Place {
    let probe = format!("rutter-try-{}", std::process::id());
    let made = Command::new("ip").args(["netns", "add", &probe]).output();
    match made {
        Ok(made) if made.status.success() => {
            let _ = Command::new("ip").args(["netns", "del", &probe]).output(); // best effort
            Place::Here
        }
        Err(error) => Place::Nowhere(format!("`ip` (iproute2) cannot be run: {error}")),
        Ok(refused) => {
            let words = ["--user", "--map-root-user", "--net", "--mount", "true"];
            let user = Command::new("unshare").args(words).output();
            if user.is_ok_and(|user| user.status.success()) {
                return Place::UserNamespace;
            }
            let said = String::from_utf8_lossy(&refused.stderr).trim().to_string();
            Place::Nowhere(format!("no network namespaces ({said}), no user namespaces"))
        }
    }
}

fn args_again(quick: bool, size: Size) -> Vec<String> {
    let mut words = vec!["demo".into(), "--seconds".into(), size.seconds.to_string()];
    if quick {
        words.push("--quick".into());
    }
    words
}

/// Runs the same command again as root of a user namespace; /run is a new one,
/// because namespaces have their names there.
fn in_user_namespace(words: &[String]) -> Result<Status, Error> {
    let me = std::env::current_exe()?;
    let script = "mount -t tmpfs tmpfs /run && exec \"$0\" \"$@\"";
    let status = Command::new("unshare")
        .args(["--user", "--map-root-user", "--net", "--mount", "sh", "-c", script])
        .arg(me)
        .args(words)
        .status()?;
    match status.code() {
        Some(0) => Ok(Status::Success),
        Some(1) => Ok(Status::No),
        Some(130) => Err(Error::Interrupted),
        _ => Ok(Status::Fault),
    }
}

/// From now on an interrupt sets a flag: there is something to clean up.
fn interruptible(cx: &mut Context) -> Result<Arc<AtomicBool>, Error> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, stop.clone())?;
    }
    cx.die_on_interrupt.store(false, Ordering::Relaxed);
    cx.out.flush()?;
    Ok(stop)
}
