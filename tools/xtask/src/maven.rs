//! Java parts, which the machine's own Java runs and its own Maven fetches into `.local/`, once.
//!
//! Only who asks for such a part needs either. Maven works with the user's settings (mirrors, proxies,
//! credentials), and what it downloads stays below `.local/` too. As with the Python environments, a stamp
//! that is written last says what an installation was made from.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::java;
use crate::step::{self, StepFailed};

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
    java::require_java(INSTALL_JAVA)?;
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
        java::require_maven(INSTALL_MAVEN)?;
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

#[cfg(test)]
mod tests {
    use super::*;

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
