//! Checks that LuaJIT is built so that a policy can be stopped.

fn main() {
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
