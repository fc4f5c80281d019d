//! BIRD's configurations: the upstream announces the table, the router takes it.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use formats::Table;

/// The upstream at 10.0.3.2 and fd00:3::2, AS 65002: announces all of `table`.
///
/// # Errors
/// When the file cannot be written.
pub fn upstream(file: &Path, table: &Table) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(file)?);
    out.write_all(b"router id 10.0.3.2;\nprotocol device {}\n")?;
    out.write_all(b"protocol static lots4 { ipv4;\n")?;
    for (prefix, _) in table.v4.iter() {
        writeln!(out, "route {prefix} blackhole;")?;
    }
    out.write_all(b"}\nprotocol static lots6 { ipv6;\n")?;
    for (prefix, _) in table.v6.iter() {
        writeln!(out, "route {prefix} blackhole;")?;
    }
    out.write_all(
        b"}
template bgp to_router { local as 65002; hold time 240; connect retry time 1; connect delay time 1;
  error wait time 1, 2; }
protocol bgp r4 from to_router { neighbor 10.0.3.1 as 65001; source address 10.0.3.2;
  ipv4 { import none; export all; next hop self; }; }
protocol bgp r6 from to_router { neighbor fd00:3::1 as 65001; source address fd00:3::2;
  ipv6 { import none; export all; next hop self; }; }
",
    )?;
    out.flush()
}

/// The router's, AS 65001: BGP with the upstream, routes into the kernel. It is
/// unmodified BIRD, and knows nothing of Rutter.
pub const ROUTER: &str = "\
router id 10.0.3.1;
protocol device {}
protocol direct { ipv4; ipv6; }
protocol kernel { ipv4 { export where source = RTS_BGP; import none; }; scan time 3600; }
protocol kernel { ipv6 { export where source = RTS_BGP; import none; }; scan time 3600; }
template bgp to_upstream { local as 65001; hold time 240; connect retry time 1; connect delay time 1;
  error wait time 1, 2; }
protocol bgp u4 from to_upstream { neighbor 10.0.3.2 as 65002; ipv4 { import all; export none; }; }
protocol bgp u6 from to_upstream { neighbor fd00:3::2 as 65002; ipv6 { import all; export none; }; }
";
