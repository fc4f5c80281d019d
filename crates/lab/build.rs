//! Compiles the shims to DPDK's tables and to hash maps of C++, for the feature `rivals`.

fn main() {
    println!("cargo:rerun-if-changed=src/rivals/dpdk.c");
    println!("cargo:rerun-if-changed=src/rivals/maps.cc");
    #[cfg(feature = "rivals")]
    {
        dpdk();
        maps();
    }
}

#[cfg(feature = "rivals")]
fn dpdk() {
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

/// The maps of C++. Of those that are a library some may be missing: `maps.cc` leaves them out.
#[cfg(feature = "rivals")]
fn maps() {
    let mut shim = cc::Build::new();
    shim.cpp(true).std("c++17").opt_level(3).flag("-march=corei7").file("src/rivals/maps.cc");
    let mut libraries = Vec::new();
    for (package, name) in [("tbb", "LAB_TBB"), ("absl_flat_hash_map", "LAB_ABSL")] {
        if let Ok(found) = pkg_config::Config::new().cargo_metadata(false).probe(package) {
            shim.define(name, None).includes(&found.include_paths);
            libraries.extend(found.libs);
        }
    }
    // Its templates warn of what they are made of.
    shim.warnings(false).compile("lab_maps");
    for library in libraries {
        println!("cargo:rustc-link-lib={library}");
    }
}
