//! Compiles the kernels for the processor at hand, so that tests run the code that devices run.
//! Only tests call it: no program has it inside.

fn main() {
    println!("cargo:rerun-if-changed=kernels/lookup.cu");
    cc::Build::new().file("kernels/host.c").include("kernels").std("c11").compile("kernels");
    println!("cargo:rerun-if-changed=kernels/host.c");
}
