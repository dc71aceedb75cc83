"""What SAM and cargo-lambda make of the template is what Lambda runs. Offline, but for what cargo has yet to fetch.

The build is the release build of both functions, ten minutes or more the first time; `cargo lambda build --release`
afterwards finds everything done. So it runs when it is asked for: `cargo xtask test --builds`.
"""

from __future__ import annotations

import os
import sys
import zipfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from cloudformation import REPOSITORY, TEMPLATE
from programs import run

LARGEST_ZIP = 50 * 1024 * 1024
"""What Lambda takes directly (https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html)."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sam")
    run("sam", "build", "-t", TEMPLATE, "--build-dir", folder, seconds=3600)
    return folder


@pytest.mark.parametrize("function", ["Writer", "Committer"])
def test_sam_build_makes_a_program_that_lambda_can_start(built: Path, function: str):
    bootstrap = built / function / "bootstrap"
    assert os.access(bootstrap, os.X_OK)
    head = bootstrap.read_bytes()[:20]
    assert head[:4] == b"\x7fELF" and head[18] == 0x3E, "an ELF program for x86-64"


def test_each_function_has_its_own_program(built: Path):
    assert (built / "Writer" / "bootstrap").read_bytes() != (built / "Committer" / "bootstrap").read_bytes()


def test_cargo_lambda_build_makes_both_zips(built: Path):
    """After SAM's build, whose work it shares: it links nothing anew."""
    run("cargo", "lambda", "build", "--release", "--output-format", "zip", seconds=1800)
    for function in ("writer", "committer"):
        package = REPOSITORY / "target" / "lambda" / function / "bootstrap.zip"
        with zipfile.ZipFile(package) as archive:
            (entry,) = archive.infolist()
        assert (entry.filename, entry.external_attr >> 16 & 0o111) == ("bootstrap", 0o111)
        assert package.stat().st_size < LARGEST_ZIP
