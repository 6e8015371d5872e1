//! Looks for libgc, without which Boehm's collector is left out.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rustc-check-cfg=cfg(boehm)");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=/usr/include/gc.h");
    let known = Command::new("pkg-config").args(["--exists", "bdw-gc"]).status().is_ok_and(|s| s.success());
    if known || Path::new("/usr/include/gc.h").exists() {
        println!("cargo::rustc-cfg=boehm");
    }
}
