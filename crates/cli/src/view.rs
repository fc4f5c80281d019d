//! The text of `show` for the views of every instance.

use std::fmt::Write;

use api::reply::{Capacity, Drop, Feed, Interface, Port, Runtime, System, Worker};

use crate::columns::{Table, number, percent, ratio};

/// Devices.
pub fn ports(all: &[Port]) -> String {
    let mut table = Table::new(&[
        "port",
        "link",
        "mac",
        ">mtu",
        ">queues",
        "workers",
        ">rx packets",
        ">rx lost",
        ">tx packets",
        ">tx errors",
        "device",
    ]);
    for port in all {
        let workers: Vec<_> = port.workers.iter().map(u16::to_string).collect();
        let link = match (port.link, &port.out, port.speed_mbps) {
            (false, ..) => "down".to_string(),
            (true, Some(why), _) => format!("out: {why}"),
            (true, None, 0) => "up".to_string(),
            (true, None, speed) => format!("up {speed}M"),
        };
        table.row([
            port.name.clone(),
            link,
            port.mac.clone(),
            port.mtu.to_string(),
            port.queues.to_string(),
            workers.join(","),
            number(port.rx_packets),
            number(port.rx_missed + port.rx_errors + port.rx_no_buffer),
            number(port.tx_packets),
            number(port.tx_errors),
            port.device.clone(),
        ]);
    }
    table.to_string()
}

/// Layer-3 interfaces; each with its addresses on lines of their own.
pub fn interfaces(all: &[Interface]) -> String {
    let mut table = Table::new(&[
        "interface",
        "state",
        "vrf",
        ">mtu",
        ">rx packets",
        ">rx bytes",
        ">tx packets",
        ">tx bytes",
        ">punted",
        ">from kernel",
        "addresses",
    ]);
    for interface in all {
        table.row([
            interface.name.clone(),
            if interface.up { "up" } else { "down" }.to_string(),
            interface.vrf.clone(),
            interface.mtu.to_string(),
            number(interface.rx_packets),
            number(interface.rx_bytes),
            number(interface.tx_packets),
            number(interface.tx_bytes),
            number(interface.punted),
            number(interface.from_kernel),
            interface.addresses.join(" "),
        ]);
    }
    table.to_string()
}

/// Workers and their nodes.
pub fn runtime(runtime: &Runtime) -> String {
    let mut text = String::new();
    for worker in &runtime.workers {
        let _ = writeln!(text, "{}", worker_line(worker, runtime.tsc_hz));
        let mut table = Table::new(&[
            "  node",
            ">vectors",
            ">packets",
            ">packets/vector",
            ">cycles/packet",
            ">share",
        ]);
        let all: u64 = worker.nodes.iter().map(|node| node.cycles).sum();
        for node in worker.nodes.iter().filter(|node| node.packets > 0) {
            table.row([
                format!("  {}", node.name),
                number(node.vectors),
                number(node.packets),
                ratio(node.packets, node.vectors),
                ratio(node.cycles, node.packets),
                percent(node.cycles, all),
            ]);
        }
        if !table.is_empty() {
            let _ = write!(text, "{table}");
        }
    }
    let ghz = runtime.tsc_hz as f64 / 1e9;
    let _ = writeln!(text, "cycles are those of the time-stamp counter, {ghz:.3} GHz");
    text
}

fn worker_line(worker: &Worker, hz: u64) -> String {
    let seconds = worker.cycles as f64 / hz.max(1) as f64;
    let rate = (worker.packets as f64 / seconds.max(1e-9)) as u64;
    let state = if worker.alive { "" } else { "  STALLED: it does not report" };
    let starved = worker.starved_s_ago.map(|ago| {
        let waited = worker.starved_ns as f64 / 1e9;
        format!(
            "  starved by the scheduler: waited {waited:.1} s for its core, last {} ago (the \
             cycles include the waits)",
            duration(ago)
        )
    });
    let starved = starved.unwrap_or_default();
    format!(
        "{} (core {}): busy {}, {} packets ({}/s on average), {} cycles/packet{state}{starved}",
        worker.name,
        worker.core,
        percent(worker.busy_cycles, worker.cycles),
        number(worker.packets),
        number(rate),
        ratio(worker.busy_cycles, worker.packets),
    )
}

/// Packets that a port's device lost. No node counts them: nodes do not see losses on receipt, and
/// count a packet as sent when the device takes it.
pub fn lost_by(port: &Port) -> impl Iterator<Item = Drop> {
    let counts = [
        ("rx_missed", port.rx_missed, "Arrived while the device's queue was full"),
        ("rx_errors", port.rx_errors, "Arrived damaged, or too long for a buffer"),
        ("rx_no_buffer", port.rx_no_buffer, "Arrived while there was no buffer: see `buffers`"),
        (
            "tx_errors",
            port.tx_errors,
            "The device took them and did not send them: check that it is there and up",
        ),
    ];
    counts.into_iter().map(|(count, packets, help)| Drop {
        reason: format!("{}.{count}", port.name),
        packets,
        help: help.into(),
    })
}

/// Drops by reason.
pub fn drops(all: &[Drop]) -> String {
    if all.is_empty() {
        return "no packet was dropped\n".into();
    }
    let mut table = Table::new(&["reason", ">packets", "meaning"]);
    for drop in all {
        table.row([drop.reason.clone(), number(drop.packets), drop.help.clone()]);
    }
    table.to_string()
}

/// Limits.
pub fn capacity(all: &[Capacity]) -> String {
    let mut table =
        Table::new(&["what", ">used", ">limit", ">refused", "set by", "latest refusal"]);
    for limit in all {
        table.row([
            limit.what.clone(),
            number(limit.used),
            limit.limit.map_or("memory".into(), number),
            number(limit.refused),
            limit.key.clone().unwrap_or_else(|| "-".into()),
            limit.last.clone(),
        ]);
    }
    table.to_string()
}

/// The daemon.
pub fn system(system: &System) -> String {
    let mut text = String::new();
    let workers: Vec<_> = system.workers.iter().map(u16::to_string).collect();
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<14}{value}");
    };
    line("version", system.version.clone());
    line("application", system.application.clone());
    line("process", format!("{}, up {}", system.pid, duration(system.uptime_s)));
    line("configuration", system.config.clone());
    line("socket", system.socket.clone());
    line("workers", format!("cores {}, idle {}", workers.join(","), system.idle));
    line("dpdk", system.dpdk.clone().unwrap_or_else(|| "not used".into()));
    for feed in &system.feeds {
        line(&feed.name, feed_line(feed));
    }
    let law = &system.accounting;
    let came = law.received + law.from_kernel + law.from_workers + law.copies;
    line("packets in", number(came));
    line(
        "packets out",
        format!(
            "{} transmitted, {} punted, {} handed over, {} dropped{}",
            number(law.transmitted),
            number(law.punted),
            number(law.handed_over),
            number(law.dropped),
            if law.held > 0 { format!(", {} held", number(law.held)) } else { String::new() }
        ),
    );
    for setting in &system.settings {
        line("setting", format!("{}: {} (was {})", setting.name, setting.is, setting.was));
    }
    for warning in &system.warnings {
        line("WARNING", warning.clone());
    }
    text
}

fn feed_line(feed: &Feed) -> String {
    let counters = feed.counters.iter().map(|(name, value)| format!(", {name} {}", number(*value)));
    format!("{}{}", feed.state, counters.collect::<String>())
}

fn duration(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, ..) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let texts = [5, 65, 3700, 90_000].map(duration);
        assert_eq!(texts, ["5 s", "1 min 5 s", "1 h 1 min", "1 d 1 h"]);
    }
}
