//! `rutter span`: port mirroring at run time.

use std::io::Write;

use api::apps::span::{Direction, Reply, Request, Shown, Span, Target};
use api::apps::{Reply as AppReply, Request as AppRequest};
use api::filter::text as filter;
use api::{CallError, Request as Ask};

use crate::columns::{Table, number};
use crate::context::Context;
use crate::error::Error;
use crate::status::Status;

/// Copy frames of ports to another port or into a file
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  rutter span add watch -p p0 -p p1 --to p3
  rutter span add web -p p0 --direction in --file /tmp/web.pcapng tcp port 443
  rutter span add some -p p2 --to p3 --vlan 10 --vlan 20 --one-in 100
  rutter span show
  rutter span del watch")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Start copying
    Add(Add),
    /// Stop copying
    Del {
        /// The copy's name
        name: String,
    },
    /// Show what is copied, and how much
    Show,
}

#[derive(clap::Args)]
struct Add {
    /// The copy's name
    name: String,
    /// A port whose frames are copied; may be given several times
    #[arg(short, long = "port", value_name = "PORT", required = true)]
    ports: Vec<String>,
    /// The port that sends the copies
    #[arg(short, long, value_name = "PORT", required_unless_present = "file")]
    to: Option<String>,
    /// The file that copies are written to: pcapng if its name ends with .pcapng, else pcap
    #[arg(short, long, value_name = "FILE", conflicts_with = "to")]
    file: Option<std::path::PathBuf>,
    /// Frames that come in, that leave, or both
    #[arg(short, long, value_enum, default_value_t = Way::Both)]
    direction: Way,
    /// Only frames with this outermost VLAN; may be given several times
    #[arg(long = "vlan", value_name = "VLAN")]
    vlans: Vec<u16>,
    /// Copy one frame in N
    #[arg(long, value_name = "N", default_value_t = 1)]
    one_in: u32,
    /// Which frames: host, net, port, proto, vlan, and, or, not, parentheses
    filter: Vec<String>,
}

/// A direction as the command writes it.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Way {
    In,
    Out,
    Both,
}

impl Add {
    fn span(self) -> Result<Span, Error> {
        filter::parse(&self.filter)?; // a mistake is named here, too
        let to = match (self.to, self.file) {
            (Some(port), _) => Target::Port(port),
            (None, file) => {
                let file = file.unwrap_or_default();
                // The daemon has another working directory.
                let path = std::path::absolute(&file)
                    .map_err(|error| Error::File { path: file, error })?;
                Target::File(path.display().to_string())
            }
        };
        let direction = match self.direction {
            Way::In => Direction::In,
            Way::Out => Direction::Out,
            Way::Both => Direction::Both,
        };
        let Add { name, ports, vlans, one_in, filter, .. } = Add { to: None, file: None, ..self };
        Ok(Span { name, ports, direction, to, vlans, filter: filter.join(" "), one_in })
    }
}

/// Carries it out.
pub fn run(args: Args, cx: &mut Context) -> Result<Status, Error> {
    let ask = |request| Ask::App(AppRequest::Span(request));
    match args.action {
        Action::Add(add) => cx.change(ask(Request::Add(add.span()?))),
        Action::Del { name } => cx.change(ask(Request::Del { name })),
        Action::Show => {
            let api::Reply::App(AppReply::Span(Reply::Spans(all))) =
                cx.call(&ask(Request::Show))?
            else {
                return Err(CallError::Unexpected.into());
            };
            if cx.json {
                cx.print_json(&all)?;
            } else {
                write!(cx.out, "{}", table(&all))?;
            }
            Ok(Status::Success)
        }
    }
}

fn table(all: &[Shown]) -> Table {
    let mut table = Table::new(&[
        "span",
        "ports",
        "direction",
        "to",
        "frames",
        ">copied",
        ">bytes",
        ">no buffer",
        ">ring full",
        "fault",
    ]);
    for Shown { span, copied, bytes, no_buffer, ring_full, fault } in all {
        let to = match &span.to {
            Target::Port(name) | Target::File(name) => name.clone(),
        };
        table.row([
            span.name.clone(),
            span.ports.join(","),
            span.direction.to_string(),
            to,
            frames(span),
            number(*copied),
            number(*bytes),
            number(*no_buffer),
            number(*ring_full),
            fault.clone(),
        ]);
    }
    table
}

/// Which frames it takes.
fn frames(span: &Span) -> String {
    let vlans: Vec<_> = span.vlans.iter().map(u16::to_string).collect();
    let mut words = Vec::new();
    words.extend((span.one_in > 1).then(|| format!("one in {}", number(span.one_in.into()))));
    words.extend((!vlans.is_empty()).then(|| format!("vlan {}", vlans.join(","))));
    words.extend(Some(span.filter.clone()).filter(|filter| !filter.is_empty()));
    if words.is_empty() { "all".into() } else { words.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_copied_reads_as_it_was_asked_for() {
        let mut span = Span {
            name: "watch".into(),
            ports: vec!["p0".into()],
            direction: Direction::In,
            to: Target::Port("p3".into()),
            vlans: Vec::new(),
            filter: String::new(),
            one_in: 1,
        };
        assert_eq!(frames(&span), "all");
        (span.vlans, span.filter, span.one_in) = (vec![10, 20], "tcp port 80".into(), 1000);
        assert_eq!(frames(&span), "one in 1,000, vlan 10,20, tcp port 80");
    }
}
