//! The parts of the tests that need Java: compiled by the machine's own Maven into `.local/java`, once.
//!
//! Only `test --all` and `--catalog iceberg` ask for them. As with the Python environments, a stamp that is written last says what they
//! were made from: the pom and every source file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::java;
use crate::step::{self, StepFailed};

const INSTALL_JAVA: &str = "install a JDK of version 17 or newer (Debian: apt-get install openjdk-17-jdk-headless) and \
                            put it on the PATH, or name its folder in JAVA_HOME; or leave out `--all` and \
                            `--catalog iceberg`, without which nothing needs it";
const INSTALL_MAVEN: &str = "install Maven 3.8 or newer (Debian: apt-get install maven) and put `mvn` on the PATH; or \
                             leave out `--all` and `--catalog iceberg`, without which nothing needs it";

/// Compiles the second catalog and the third reader and fetches what they need, if that isn't done.
pub(crate) fn ensure() -> Result<(), StepFailed> {
    java::require_java(INSTALL_JAVA)?;
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
    java::require_maven(INSTALL_MAVEN)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_named_with_what_to_do() {
        let failure = java::require("/nonexistent/mvn", "--version", INSTALL_MAVEN).unwrap_err().to_string();
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
