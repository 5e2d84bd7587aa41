//! Writes the lists of the SQL files that the program carries: every migration by its number, every file of functions by its path.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=sql");
    let folder = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("sql");
    let mut source = String::new();
    for list in ["tables", "functions"] {
        let mut files = Vec::new();
        collect(&folder.join(list), &mut files)?;
        files.sort();
        let _ = writeln!(source, "pub(crate) const {}: &[(&str, &str)] = &[", list.to_uppercase());
        for file in files {
            println!("cargo::rerun-if-changed={}", file.display());
            let name = file.strip_prefix(folder.join(list)).unwrap_or(&file).to_string_lossy().replace('\\', "/");
            let _ = writeln!(source, "    ({name:?}, include_str!({:?})),", file.display().to_string());
        }
        source.push_str("];\n");
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    fs::write(out.join("sql.rs"), source)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    println!("cargo::rerun-if-changed={}", folder.display());
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|end| end == "sql") {
            files.push(path);
        }
    }
    Ok(())
}
