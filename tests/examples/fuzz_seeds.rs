//! Writes the fuzz targets' seeds, each into a folder of its target's name below the given one.

#![expect(clippy::expect_used, reason = "a tool for developers, which ends by panicking")]

use std::path::PathBuf;
use std::{env, fs};

use icefall_tests::fuzz::seeds;

fn main() {
    let root = PathBuf::from(env::args_os().nth(1).expect("the folder to write to"));
    for (index, (target, seed)) in seeds().into_iter().enumerate() {
        let folder = root.join(target);
        fs::create_dir_all(&folder).expect("the folder can be made");
        fs::write(folder.join(format!("seed-{index}")), seed).expect("the seed can be written");
    }
}
