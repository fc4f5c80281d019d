//! What the fuzzer calls. A target must come back from any bytes, and panics
//! where a promise is broken.

pub mod capture;
pub mod daemon;
pub mod formats;
pub mod ggu;
pub mod grantor;
pub mod graph;
pub mod netlink;
pub mod policy;
pub mod program;
mod says;
pub mod shield;
mod site;
pub mod wire;
mod worker;

/// A name, and the function.
pub type Target = (&'static str, fn(&[u8]));

/// Targets that take their inputs step by step: a few beginnings of each are enough for
/// its replay.
pub const IN_STEPS: &[&str] = &["grantor", "graph", "shield", "switch"];

/// Every target.
pub const TARGETS: &[Target] = &[
    ("api_request", daemon::request),
    ("daemon_config", daemon::configuration),
    ("feeds_fpm", netlink::fpm),
    ("feeds_netlink", netlink::messages),
    ("formats_text", formats::text),
    ("formats_mrt", formats::mrt),
    ("grantor", grantor::grantor),
    ("graph", graph::graph),
    ("io_capture", capture::capture),
    ("policy_object", program::object),
    ("policy_ring", policy::ring),
    ("shield", shield::shield),
    ("switch", graph::switch),
    ("wire_ggu", ggu::messages),
    ("wire_packet", wire::packet),
    ("wire_headers", wire::headers),
];

/// Bytes to begin with: target, name, content.
pub fn seeds() -> Vec<(&'static str, String, Vec<u8>)> {
    let seeds = [capture::seeds(), daemon::seeds(), formats::seeds(), netlink::seeds()].concat();
    let nodes = [graph::seeds::seeds(), shield::seeds::seeds(), grantor::seeds::seeds()].concat();
    let policies = [policy::seeds(), program::seeds()].concat();
    [seeds, ggu::seeds(), wire::seeds(), nodes, policies].concat()
}
