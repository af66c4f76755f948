"""Programs of other projects in Java, which Maven fetches, run as child processes."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path


def answers(program: Path, folder: Path, lines: Iterable[str]) -> Sequence[str]:
    """Return the line that a program answers to each line; ``folder`` takes its jars."""
    pom = program.with_name("pom.xml")
    fetch = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
    subprocess.run([*fetch, f"-DoutputDirectory={folder}"], check=True, timeout=600)
    done = subprocess.run(
        ["java", "-cp", f"{folder}/*", str(program)],
        input="".join(f"{line}\n" for line in lines),
        check=True,
        capture_output=True,
        text=True,
        timeout=600,
    )
    return done.stdout.splitlines()
