//! Compiles the shim to DPDK's tables, for the feature `rivals`.

fn main() {
    println!("cargo:rerun-if-changed=src/rivals/dpdk.c");
    #[cfg(feature = "rivals")]
    rivals();
}

#[cfg(feature = "rivals")]
fn rivals() {
    let dpdk = pkg_config::Config::new().cargo_metadata(false).probe("libdpdk");
    let dpdk = dpdk.expect("the feature `rivals` needs DPDK: apt-get install libdpdk-dev");
    // Before the libraries are named: the linker keeps what is asked for by then.
    let mut shim = cc::Build::new();
    shim.file("src/rivals/dpdk.c").includes(&dpdk.include_paths);
    shim.define("ALLOW_EXPERIMENTAL_API", None);
    shim.flag("-include").flag("rte_config.h").flag("-march=corei7").compile("lab_dpdk");
    for path in &dpdk.link_paths {
        println!("cargo:rustc-link-search=native={}", path.display());
    }
    for library in ["rte_fib", "rte_rib", "rte_lpm", "rte_hash", "rte_eal", "rte_mempool"] {
        println!("cargo:rustc-link-lib={library}");
    }
}
