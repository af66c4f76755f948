"""The version before: which commit it is, and its wheel in an environment of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from crawlstream.boot.local_note import repository
from crawlstream.errors import SetupError
from crawlstream_cli.local.home import checkout

BEFORE = "HEAD^{/^Define the options that name a crawl once}"
"""The commit from which, and to which, a running cluster can be changed: a tag, once there is one.

It has none yet, so that its subject names it. Renew it with each release."""
_THIS = "this"


def before(ref: str = BEFORE) -> Path:
    """Return the Python of the version before, built by its first caller; SetupError.

    A checkout without history knows no other version: it is changed to itself.
    """
    commit = _commit(ref)
    place = repository() / ".crawlstream" / "versions" / commit[:12]
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent) as folder:
            source = _unpacked(commit, Path(folder)) if commit != _THIS else repository()
            install_wheel(source, Path(folder, "installed"))
            # Whole or not at all; another process may have been quicker.
            if not place.exists():
                Path(folder, "installed").rename(place)
    return place / "venv" / "bin" / "python"


def install_wheel(source: Path, folder: Path) -> Path:
    """Build the wheel of a source tree, and install it in a virtual environment; its Python.

    The versions of packages are those of the tree's lock. SetupError: a step failed.
    """
    dist, venv = folder / "dist", folder / "venv"
    _output(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(dist), at=source)
    (wheel,) = dist.iterdir()
    uv, python = str(Path(sys.executable).with_name("uv")), str(venv / "bin" / "python")
    _output(uv, "venv", "-q", "--python", sys.executable, str(venv))
    # Constraints, whose hashes are checked: what is installed is what the wheel asks for.
    install = ("pip", "install", "-q", "--system-certs", "--no-build", "-c", "requirements.txt")
    _output(uv, *install, "--python", python, str(wheel), at=source)
    return Path(python)


def _commit(ref: str) -> str:
    """Return the commit; a shallow clone gets the rest of its history for it."""
    try:
        folder = checkout(".git").parent
        if _output("git", "rev-parse", "--is-shallow-repository", at=folder) == "true":
            _output("git", "fetch", "-q", "--unshallow", at=folder)
        return _output("git", "rev-parse", "--verify", ref, at=folder)
    except SetupError as error:
        sys.stderr.write(f"the version before is taken to be this one: {error}\n")
        return _THIS


def _unpacked(commit: str, folder: Path) -> Path:
    """Return a folder with the files of a commit."""
    archive, source = folder / "source.tar", folder / "source"
    source.mkdir()
    _output("git", "archive", "-o", str(archive), commit, at=checkout(".git").parent)
    _output("tar", "-xf", str(archive), "-C", str(source))
    return source


def _output(*argv: str, at: Path | None = None) -> str:
    done = subprocess.run(argv, cwd=at, capture_output=True, text=True, check=False, env=os.environ)
    if done.returncode:
        raise SetupError(f"{' '.join(argv)} failed: {done.stderr.strip()}")
    return done.stdout.strip()
