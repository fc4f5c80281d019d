//! Compiles the C shim over DPDK and generates its Rust declarations.

fn main() {
    println!("cargo:rerun-if-changed=shim");
    #[cfg(feature = "dpdk")]
    dpdk::build();
}

#[cfg(feature = "dpdk")]
mod dpdk {
    use std::env;
    use std::path::{Path, PathBuf};

    const MISSING: &str = "libdpdk 22.11 or newer was not found. Install it (Debian, Ubuntu: \
        `apt-get install libdpdk-dev pkg-config libclang1 libclang-common-14-dev`), or build \
        without DPDK's ports: `--no-default-features`";

    pub(crate) fn build() {
        // Link flags come last: the linker drops a library that nothing before
        // it on the line asked for (`--as-needed`), and the shim asks.
        let dpdk = pkg_config::Config::new()
            .atleast_version("22.11")
            .cargo_metadata(false)
            .probe("libdpdk")
            .unwrap_or_else(|error| fail(&format!("{MISSING}\n{error}")));
        let flags = flags(&dpdk.include_paths);
        compile(&flags);
        generate(&flags);
        for path in &dpdk.link_paths {
            println!("cargo:rustc-link-search=native={}", path.display());
        }
        for library in ["ethdev", "mbuf", "mempool", "eal"] {
            println!("cargo:rustc-link-lib=rte_{library}");
        }
    }

    /// What pkg-config says about headers, and by hand what its crate leaves
    /// out. DPDK's inline functions need SSE 4.2, as does the library.
    fn flags(include_paths: &[PathBuf]) -> Vec<String> {
        let mut flags = vec!["-include".into(), "rte_config.h".into()];
        if env::var("CARGO_CFG_TARGET_ARCH").as_deref() == Ok("x86_64") {
            flags.push("-march=x86-64-v2".into());
        }
        flags.extend(include_paths.iter().map(|path| format!("-isystem{}", path.display())));
        flags
    }

    fn compile(flags: &[String]) {
        let mut build = cc::Build::new();
        build.files(["shim/shim.c", "shim/start.c"]);
        build.opt_level(3).std("gnu11").warnings(true).extra_warnings(true);
        build.flags(flags).flag("-Werror=implicit-function-declaration");
        build.compile("rutter_dpdk_shim");
    }

    fn generate(flags: &[String]) {
        find_libclang();
        let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("shim.rs");
        bindgen::Builder::default()
            .header("shim/shim.h")
            .clang_args(flags)
            .allowlist_item("rutter_.*|RUTTER_.*")
            .allowlist_recursively(false)
            .default_enum_style(bindgen::EnumVariation::Consts)
            .prepend_enum_name(false)
            .derive_default(true)
            .layout_tests(false)
            .formatter(bindgen::Formatter::None)
            .generate()
            .unwrap_or_else(|error| fail(&format!("bindgen: {error}\n{MISSING}")))
            .write_to_file(out)
            .expect("the output directory can be written");
    }

    /// Debian keeps libclang, and the headers it looks for beside itself,
    /// under /usr/lib/llvm-*; bindgen finds it there only by its path.
    fn find_libclang() {
        println!("cargo:rerun-if-env-changed=LIBCLANG_PATH");
        if env::var_os("LIBCLANG_PATH").is_some() {
            return;
        }
        let Ok(entries) = Path::new("/usr/lib").read_dir() else { return };
        let mut found: Vec<PathBuf> = entries
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.to_string_lossy().contains("/llvm-"))
            .map(|path| path.join("lib"))
            .filter(|path| has_libclang(path))
            .collect();
        found.sort();
        if let Some(path) = found.pop() {
            // SAFETY: a build script that has started no thread.
            unsafe { env::set_var("LIBCLANG_PATH", path) };
        }
    }

    fn has_libclang(path: &Path) -> bool {
        path.read_dir().is_ok_and(|entries| {
            entries.flatten().any(|entry| {
                let name = entry.file_name();
                let name = name.to_string_lossy();
                name.starts_with("libclang.so") || name.starts_with("libclang-1")
            })
        })
    }

    fn fail(message: &str) -> ! {
        eprintln!("\nerror: {message}\n");
        std::process::exit(1)
    }
}
