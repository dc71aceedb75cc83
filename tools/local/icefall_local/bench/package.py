"""The functions as they are uploaded: one zip each, holding one program named `bootstrap`.

https://docs.aws.amazon.com/lambda/latest/dg/lambda-runtimes.html#runtimes-provided. The benchmarks run what
the zip unpacks to, so that a package that can't start is found out.
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path

_PROGRAM = "bootstrap"
_EXECUTABLE = 0o100755 << 16
"""Type and mode of the entry, where zip keeps them."""
_EARLIEST = (1980, 1, 1, 0, 0, 0)
"""The same program makes the same zip, whenever it is packed."""


@dataclass(frozen=True)
class Package:
    """A packed function, and the program it unpacks to."""

    zip_bytes: int
    bootstrap: Path

    @property
    def megabytes(self) -> float:
        return round(self.zip_bytes / 1e6, 2)


def pack(program: Path, folder: Path) -> Package:
    """Packs `program` into `folder`/function.zip and unpacks it beside that."""
    folder.mkdir(parents=True)
    archive = folder / "function.zip"
    entry = zipfile.ZipInfo(_PROGRAM, _EARLIEST)
    entry.external_attr = _EXECUTABLE
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr(entry, program.read_bytes(), zipfile.ZIP_DEFLATED, compresslevel=9)
    with zipfile.ZipFile(archive) as file:
        file.extract(_PROGRAM, folder)
    (folder / _PROGRAM).chmod(0o755)
    return Package(archive.stat().st_size, folder / _PROGRAM)
