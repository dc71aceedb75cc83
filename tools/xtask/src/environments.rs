//! The Python environments below `.local/`: one for the tools, one for the SQS server and one for what deploys,
//! each of which pins libraries that the others can't share.
//!
//! An environment is complete when its stamp equals what it would be installed from. The stamp is written
//! last, so an installation that was interrupted is done again, and a changed requirements file is noticed.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::build;
use crate::python;
use crate::step::{self, StepFailed};

/// The installed tools, ready to take over.
#[derive(Debug)]
pub(crate) struct Tools {
    python: PathBuf,
    repository: PathBuf,
}

struct Environment {
    folder: &'static str,
    requirements: &'static str,
    holds: &'static str,
}

const ENVIRONMENTS: [Environment; 2] = [
    Environment {
        folder: "venv",
        requirements: "requirements.txt",
        holds: "object store, catalog, Kafka broker, readers",
    },
    Environment { folder: "venv-queue", requirements: "requirements-queue.txt", holds: "SQS server" },
];

/// SAM and cargo-lambda: large, and only the tests of the deployment need them.
const DEPLOYMENT: Environment = Environment {
    folder: "venv-deploy",
    requirements: "requirements-deploy.txt",
    holds: "SAM and cargo-lambda",
};

/// Installs what deploys, as [`ensure`] does the rest.
pub(crate) fn ensure_deployment() -> Result<(), StepFailed> {
    DEPLOYMENT.ensure(&step::repository())
}

/// Installs what is missing or changed; does nothing when all is in place.
pub(crate) fn ensure() -> Result<Tools, StepFailed> {
    let repository = step::repository();
    for environment in &ENVIRONMENTS {
        environment.ensure(&repository)?;
    }
    Ok(Tools { python: repository.join(".local/venv/bin/python"), repository })
}

impl Environment {
    fn ensure(&self, repository: &Path) -> Result<(), StepFailed> {
        let folder = repository.join(".local").join(self.folder);
        let requirements = repository.join("tools/local").join(self.requirements);
        let stamp = folder.join("installed-from.txt");
        let wanted = wanted_stamp(&folder, &requirements)?;
        if fs::read_to_string(&stamp).is_ok_and(|found| found == wanted) {
            return Ok(());
        }
        self.install(&folder, &requirements)?;
        fs::write(&stamp, wanted).map_err(|source| unwritable(&stamp, &source))
    }

    fn install(&self, folder: &Path, requirements: &Path) -> Result<(), StepFailed> {
        step::run(
            &format!("Creating the Python environment for {} in {}", self.holds, folder.display()),
            Command::new(python::find()?).args(["-m", "venv", "--clear"]).arg(folder),
            "check that .local/ is writable and that Python's venv module works",
        )?;
        step::run(
            &format!("Installing {} (once)", self.holds),
            Command::new(folder.join("bin/python"))
                .args(["-m", "pip", "install", "--disable-pip-version-check", "--only-binary=:all:", "-r"])
                .arg(requirements),
            "check that the Python package index is reachable (pip's own settings and proxies apply) and run \
             the command again; wheels exist for Linux and macOS on x86-64 and arm64",
        )
    }
}

/// What a complete environment was installed from: its place (a venv can't be moved) and the requirements.
fn wanted_stamp(folder: &Path, requirements: &Path) -> Result<String, StepFailed> {
    let listed = fs::read_to_string(requirements).map_err(|source| {
        StepFailed::new(
            format!("could not read {}: {source}", requirements.display()),
            "restore the file from version control",
        )
    })?;
    Ok(format!("# {}\n{listed}", folder.display()))
}

fn unwritable(path: &Path, source: &std::io::Error) -> StepFailed {
    StepFailed::new(format!("could not write {}: {source}", path.display()), "make .local/ writable")
}

impl Tools {
    /// Becomes `python -m MODULE COMMAND ARGUMENTS`; returns only if that can't be started.
    pub(crate) fn hand_over(&self, module: &str, command: &str, arguments: &[OsString]) -> StepFailed {
        let mut all = vec![OsString::from(command)];
        all.extend(arguments.iter().cloned());
        self.hand_over_module(module, &all)
    }

    /// Becomes `python -m MODULE ARGUMENTS`; returns only if that can't be started.
    pub(crate) fn hand_over_module(&self, module: &str, arguments: &[OsString]) -> StepFailed {
        let mut command = Command::new(&self.python);
        build::keep_package_back(&mut command);
        let source = command
            .args([OsStr::new("-m"), OsStr::new(module)])
            .args(arguments)
            .env("PYTHONPATH", self.repository.join("tools/local"))
            .env("ICEFALL_REPOSITORY", &self.repository)
            .exec();
        StepFailed::new(
            format!("could not start {}: {source}", self.python.display()),
            "remove the folder .local/venv and run the command again",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_changes_with_the_place_and_with_the_requirements() {
        let requirements = step::repository().join("tools/local/requirements.txt");
        let other = step::repository().join("tools/local/requirements-queue.txt");
        let stamp = wanted_stamp(Path::new("/a"), &requirements).unwrap();
        assert_ne!(stamp, wanted_stamp(Path::new("/b"), &requirements).unwrap());
        assert_ne!(stamp, wanted_stamp(Path::new("/a"), &other).unwrap());
    }

    #[test]
    fn a_missing_requirements_file_is_named() {
        let failure = wanted_stamp(Path::new("/a"), Path::new("/nonexistent.txt")).unwrap_err();
        assert!(failure.to_string().contains("/nonexistent.txt"));
    }
}
