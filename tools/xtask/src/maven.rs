//! Java parts, which the machine's own Java runs and its own Maven fetches into `.local/`, once.
//!
//! Only who asks for such a part needs either. Maven works with the user's settings (mirrors, proxies,
//! credentials), and what it downloads stays below `.local/` too. As with the Python environments, a stamp
//! that is written last says what an installation was made from.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::step::{self, StepFailed};

/// The oldest Java that Apache Kafka 4 runs on.
const OLDEST_JAVA: u32 = 17;
const INSTALL_JAVA: &str = "install Java 17 or newer (Debian: apt-get install openjdk-17-jre-headless) and put \
                            it on the PATH, or name its folder in JAVA_HOME; `--kafka embedded`, and tests \
                            without `--all`, need none";
const INSTALL_MAVEN: &str = "install Maven 3.8 or newer (Debian: apt-get install maven) and put `mvn` on the \
                             PATH; `--kafka embedded`, and tests without `--all`, need none";

/// A folder of jars below `.local/`, and the pom that says which.
#[derive(Debug)]
struct Jars {
    folder: &'static str,
    pom: &'static str,
    holds: &'static str,
}

const KAFKA: Jars = Jars { folder: "kafka", pom: "kafka/pom.xml", holds: "Apache Kafka" };

/// Installs Apache Kafka, if it is missing or its pom has changed, after a look at whether it can run.
pub(crate) fn ensure_kafka() -> Result<(), StepFailed> {
    require_java()?;
    KAFKA.ensure(&step::repository())
}

impl Jars {
    fn ensure(&self, repository: &Path) -> Result<(), StepFailed> {
        let folder = repository.join(".local").join(self.folder);
        let pom = repository.join("tools/local").join(self.pom);
        let stamp = folder.join("installed-from.xml");
        let wanted = fs::read_to_string(&pom).map_err(|source| {
            StepFailed::new(
                format!("could not read {}: {source}", pom.display()),
                "restore the file from version control",
            )
        })?;
        if fs::read_to_string(&stamp).is_ok_and(|found| found == wanted) {
            return Ok(());
        }
        self.install(&folder, &pom)?;
        fs::write(&stamp, wanted).map_err(|source| {
            StepFailed::new(format!("could not write {}: {source}", stamp.display()), "make .local/ writable")
        })
    }

    /// Jars of an earlier version would stand beside the new ones on the class path, so they go first.
    fn install(&self, folder: &Path, pom: &Path) -> Result<(), StepFailed> {
        require_maven()?;
        let jars = folder.join("lib");
        if jars.exists() {
            fs::remove_dir_all(&jars).map_err(|source| {
                StepFailed::new(
                    format!("could not remove {}: {source}", jars.display()),
                    "make .local/ writable",
                )
            })?;
        }
        step::run(
            &format!("Installing {} with Maven (once)", self.holds),
            Command::new("mvn")
                .args(["--batch-mode", "--file"])
                .arg(pom)
                .args(["dependency:copy-dependencies", "-DincludeScope=runtime"])
                .arg(format!("-DoutputDirectory={}", jars.display()))
                .arg(format!("-Dmaven.repo.local={}", folder.join("repository").display())),
            "check that Maven reaches a repository with the artifacts named above (its own settings.xml, mirrors \
             and proxies apply) and run the command again",
        )
    }
}

fn require_java() -> Result<(), StepFailed> {
    let program = java();
    let output = Command::new(&program).arg("-version").output().map_err(|source| {
        StepFailed::new(format!("`{}` could not be started: {source}", program.display()), INSTALL_JAVA)
    })?;
    let said = String::from_utf8_lossy(&output.stderr);
    match major_version(&said) {
        Some(version) if output.status.success() && version >= OLDEST_JAVA => Ok(()),
        Some(version) if output.status.success() => {
            Err(StepFailed::new(format!("`{}` is Java {version}", program.display()), INSTALL_JAVA))
        }
        _ => Err(StepFailed::new(
            format!("`{} -version` did not say which Java it is: {}", program.display(), said.trim()),
            INSTALL_JAVA,
        )),
    }
}

fn require_maven() -> Result<(), StepFailed> {
    match Command::new("mvn").arg("--version").output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            Err(StepFailed::new(
                format!("`mvn --version` ended with {}: {said}", output.status),
                INSTALL_MAVEN,
            ))
        }
        Err(source) => Err(StepFailed::new(format!("`mvn` could not be started: {source}"), INSTALL_MAVEN)),
    }
}

/// As Maven looks for it: in `JAVA_HOME` when that is set, or on the PATH.
fn java() -> PathBuf {
    env::var_os("JAVA_HOME")
        .filter(|home| !home.is_empty())
        .map_or_else(|| PathBuf::from("java"), |home| Path::new(&home).join("bin").join("java"))
}

/// Of `openjdk version "17.0.15" 2025-04-15` and whatever stands around that line.
fn major_version(said: &str) -> Option<u32> {
    let quoted = said.split_once(" version \"")?.1;
    let digits = quoted.split(|letter: char| !letter.is_ascii_digit()).next()?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_found_in_what_java_says() {
        assert_eq!(major_version("openjdk version \"17.0.15\" 2025-04-15\nOpenJDK Runtime"), Some(17));
        assert_eq!(
            major_version("Picked up JAVA_TOOL_OPTIONS: -X\njava version \"21\" 2023-09-19 LTS"),
            Some(21)
        );
        assert_eq!(major_version("java version \"1.8.0_392\""), Some(1));
        assert_eq!(major_version("The program can't be found"), None);
    }

    #[test]
    fn a_missing_pom_is_named() {
        let jars = Jars { folder: "none", pom: "none/pom.xml", holds: "nothing" };
        let failure = jars.ensure(Path::new("/nonexistent")).unwrap_err().to_string();
        assert!(failure.contains("/nonexistent/tools/local/none/pom.xml"), "{failure}");
    }

    #[test]
    fn the_pom_is_where_it_is_looked_for() {
        assert!(step::repository().join("tools/local").join(KAFKA.pom).is_file());
    }
}
