//! Hashes what the core is made of, so that stored results are made again only after a change.

use std::collections::BTreeSet;
use std::io::Result;
use std::path::{Path, PathBuf};
use std::{fs, iter};

// An agent's process reads this table without the core, so it lies beside its reader.
const DIALECTS: &str = "src/looptrace/analyzer/fields/dialects.toml";

fn main() -> Result<()> {
    let mut files = BTreeSet::new();
    for root in ["Cargo.toml", "core/src", "core/data", DIALECTS] {
        println!("cargo::rerun-if-changed={root}");
        add_files(Path::new(root), &mut files)?;
    }
    // FNV-1a is the same with every compiler, and no attacker writes these files.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for file in files {
        let name = file.to_string_lossy().replace('\\', "/");
        let text = fs::read(&file)?;
        // A checkout on Windows may end lines in two characters.
        let text = text.into_iter().filter(|byte| *byte != b'\r');
        for byte in name
            .into_bytes()
            .into_iter()
            .chain(iter::once(0))
            .chain(text)
        {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    println!("cargo::rustc-env=CORE_SOURCE={hash:016x}");
    Ok(())
}

fn add_files(path: &Path, files: &mut BTreeSet<PathBuf>) -> Result<()> {
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            add_files(&entry?.path(), files)?;
        }
    } else if path.is_file() {
        files.insert(path.to_owned());
    }
    Ok(())
}
