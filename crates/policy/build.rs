//! Looks how LuaJIT is built, and compiles the C shim over DPDK's compiler for programs.

fn main() {
    println!("cargo:rerun-if-changed=shim");
    lua();
    #[cfg(feature = "dpdk")]
    dpdk::build();
}

/// Checks that LuaJIT is built so that a policy can be stopped.
fn lua() {
    const FLAG: &str = "-DLUAJIT_ENABLE_CHECKHOOK";
    let names = ["HOST_CFLAGS", "TARGET_CFLAGS", "CFLAGS", "XCFLAGS"];
    for name in names {
        println!("cargo:rerun-if-env-changed={name}");
    }
    let there = names.iter().any(|name| std::env::var(name).is_ok_and(|v| v.contains(FLAG)));
    // Cargo sets this for each feature that is on.
    if std::env::var_os("CARGO_FEATURE_LUA").is_some() && !there {
        println!(
            "cargo::error=LuaJIT needs {FLAG}, or an endless loop in a policy cannot be stopped: \
             build inside the repository, whose .cargo/config.toml says so, or set HOST_CFLAGS \
             and TARGET_CFLAGS to it"
        );
    }
}

#[cfg(feature = "dpdk")]
mod dpdk {
    use std::env;

    const MISSING: &str = "libdpdk 22.11 or newer was not found. Install it (Debian, Ubuntu: \
        `apt-get install libdpdk-dev pkg-config`), or build without DPDK's compiler: \
        `--no-default-features`";

    pub(crate) fn build() {
        // Link flags come last, as in io-dpdk: the linker drops a library that nothing before
        // it on the line asked for.
        let dpdk = pkg_config::Config::new()
            .atleast_version("22.11")
            .cargo_metadata(false)
            .probe("libdpdk")
            .unwrap_or_else(|error| {
                eprintln!("\nerror: {MISSING}\n{error}\n");
                std::process::exit(1)
            });
        let mut build = cc::Build::new();
        build.file("shim/bpf.c").opt_level(3).std("gnu11").warnings(true).extra_warnings(true);
        build.flag("-include").flag("rte_config.h").flag("-Werror=implicit-function-declaration");
        if env::var("CARGO_CFG_TARGET_ARCH").as_deref() == Ok("x86_64") {
            build.flag("-march=x86-64-v2"); // DPDK's inline functions need SSE 4.2
        }
        for path in &dpdk.include_paths {
            build.flag(format!("-isystem{}", path.display()));
        }
        build.compile("rutter_bpf_shim");
        for path in &dpdk.link_paths {
            println!("cargo:rustc-link-search=native={}", path.display());
        }
        println!("cargo:rustc-link-lib=rte_bpf");
    }
}
