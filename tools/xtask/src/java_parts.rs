//! The parts of the tests that need Java: compiled by the machine's own Maven into `.local/java`, once.
//!
//! Only `test --all` asks for them. As with the Python environments, a stamp that is written last says what they
//! were made from: the pom and every source file.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::step::{self, StepFailed};

/// The oldest Java that the sources compile and run on.
const OLDEST_JAVA: u32 = 17;
const INSTALL_JAVA: &str = "install a JDK of version 17 or newer (Debian: apt-get install openjdk-17-jdk-headless) and \
                            put it on the PATH, or name its folder in JAVA_HOME; or leave out `--all`, without which \
                            the tests need none";
const INSTALL_MAVEN: &str = "install Maven 3.8 or newer (Debian: apt-get install maven) and put `mvn` on the PATH; or \
                             leave out `--all`, without which the tests need none";

/// Compiles the second catalog and the third reader and fetches what they need, if that isn't done.
pub(crate) fn ensure() -> Result<(), StepFailed> {
    require_java()?;
    let repository = step::repository();
    let (module, folder) = (repository.join("tests/java"), repository.join(".local/java"));
    let stamp = folder.join("built-from.txt");
    let wanted = sources(&module)?;
    if fs::read_to_string(&stamp).is_ok_and(|found| found == wanted) {
        return Ok(());
    }
    build(&module, &folder)?;
    fs::write(&stamp, wanted).map_err(|source| {
        StepFailed::new(format!("could not write {}: {source}", stamp.display()), "make .local/ writable")
    })
}

/// What was built before goes first: jars of another version would stand beside the new ones on the class path.
fn build(module: &Path, folder: &Path) -> Result<(), StepFailed> {
    require("mvn", "--version", INSTALL_MAVEN)?;
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(|source| {
            StepFailed::new(
                format!("could not remove {}: {source}", folder.display()),
                "make .local/ writable",
            )
        })?;
    }
    step::run(
        "Building the second catalog and the Java reader with Maven (once; downloads some 120 MB)",
        Command::new("mvn")
            .args(["--batch-mode", "--quiet", "--file"])
            .arg(module.join("pom.xml"))
            .args(["package", "dependency:copy-dependencies", "-DincludeScope=runtime"])
            .arg(format!("-DoutputDirectory={}", folder.join("lib").display())),
        "read Maven's message above; it must reach a repository with the artifacts that it names (its own \
         settings.xml, mirrors and proxies apply)",
    )
}

/// The pom and all source files, as one text.
fn sources(module: &Path) -> Result<String, StepFailed> {
    let mut paths = vec![module.join("pom.xml")];
    collect(&module.join("src"), &mut paths)?;
    paths.sort();
    let mut all = String::new();
    for path in paths {
        let text = fs::read_to_string(&path).map_err(|source| unreadable(&path, &source))?;
        all.push_str(&text);
    }
    Ok(all)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), StepFailed> {
    for entry in fs::read_dir(folder).map_err(|source| unreadable(folder, &source))? {
        let path = entry.map_err(|source| unreadable(folder, &source))?.path();
        if path.is_dir() { collect(&path, files)? } else { files.push(path) }
    }
    Ok(())
}

fn unreadable(path: &Path, source: &std::io::Error) -> StepFailed {
    let what = format!("could not read {}: {source}", path.display());
    StepFailed::new(what, "restore the file from version control")
}

fn require_java() -> Result<(), StepFailed> {
    let program = java();
    let said = require(&program.to_string_lossy(), "-version", INSTALL_JAVA)?;
    match major_version(&said) {
        Some(version) if version >= OLDEST_JAVA => Ok(()),
        Some(version) => {
            Err(StepFailed::new(format!("`{}` is Java {version}", program.display()), INSTALL_JAVA))
        }
        None => {
            let what = format!("`{} -version` did not say which Java it is: {said}", program.display());
            Err(StepFailed::new(what, INSTALL_JAVA))
        }
    }
}

/// What the program says about its version; Java says it on its standard error.
fn require(program: &str, version: &str, remedy: &str) -> Result<String, StepFailed> {
    let output = Command::new(program)
        .arg(version)
        .output()
        .map_err(|source| StepFailed::new(format!("`{program}` could not be started: {source}"), remedy))?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if output.status.success() {
        return Ok(said);
    }
    Err(StepFailed::new(format!("`{program} {version}` ended with {}: {said}", output.status), remedy))
}

/// As Maven looks for it: in `JAVA_HOME` when that is set, or on the PATH.
fn java() -> PathBuf {
    env::var_os("JAVA_HOME")
        .filter(|home| !home.is_empty())
        .map_or_else(|| PathBuf::from("java"), |home| Path::new(&home).join("bin/java"))
}

/// Of `openjdk version "17.0.15" 2025-04-15` and whatever stands around that line.
fn major_version(said: &str) -> Option<u32> {
    let quoted = said.split_once(" version \"")?.1;
    quoted.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_found_in_what_java_says() {
        assert_eq!(major_version("openjdk version \"17.0.15\" 2025-04-15\nOpenJDK Runtime"), Some(17));
        assert_eq!(major_version("Picked up JAVA_TOOL_OPTIONS: -X\njava version \"21\" 2023"), Some(21));
        assert_eq!(major_version("java version \"1.8.0_392\""), Some(1));
        assert_eq!(major_version("no such program"), None);
    }

    #[test]
    fn a_missing_program_is_named_with_what_to_do() {
        let failure = require("/nonexistent/mvn", "--version", INSTALL_MAVEN).unwrap_err().to_string();
        assert!(
            failure.contains("/nonexistent/mvn") && failure.contains("apt-get install maven"),
            "{failure}"
        );
    }

    #[test]
    fn the_stamp_holds_the_pom_and_the_sources() {
        let sources = sources(&step::repository().join("tests/java")).unwrap();
        assert!(sources.contains("<artifactId>icefall-tests</artifactId>"));
        assert!(sources.contains("class CatalogServer") && sources.contains("class TableReader"));
    }
}
