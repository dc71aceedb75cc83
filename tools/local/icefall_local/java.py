"""The programs that need Java: the second catalog and the third reader, as `cargo xtask test --all` built them.

Only who asks for one needs Java; it is looked for as Maven looks for it.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from icefall_local.workspace import Unusable, Workspace

_QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
"""For programs that live for a test run: little compilation, little memory, and no word unless something is odd."""


@dataclass(frozen=True)
class Java:
    """A Java, and the classes of `tests/java`."""

    program: str
    classpath: str

    @classmethod
    def here(cls, workspace: Workspace) -> Java:
        """What was built; `Unusable` says what to do when nothing was."""
        built = workspace.local / "java"
        jar = built / "target" / "icefall-tests.jar"
        if not jar.exists():
            raise Unusable(f"{jar} is missing: start through `cargo xtask test --all`, which builds it")
        return cls(_program(), os.pathsep.join((str(jar), str(built / "lib" / "*"))))

    def command(self, main: str, *arguments: str | Path) -> list[str | Path]:
        """Runs the class `main`."""
        return [self.program, *_QUICK_START, "-cp", self.classpath, main, *arguments]


def _program() -> str:
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if program is None or not os.access(program, os.X_OK):
        raise Unusable("no Java was found: put a JDK of version 17 or newer on the PATH, or name it in JAVA_HOME")
    return program
