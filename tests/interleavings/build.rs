//! Has this package, and no other, compiled with the locks of shuttle.

fn main() {
    println!("cargo::rustc-cfg=shuttle");
    // The features of `longhaul`, which this package does not have.
    println!("cargo::rustc-check-cfg=cfg(feature, values(any()))");
}
