"""``python -m crawlstream_cli.dev.lock``: renews the locks of packages from pyproject.toml.

``requirements.txt`` locks the dependencies of the product, ``requirements/NAME.txt`` the additional
ones of the extra or group with that name. All of them come from one resolution, so that they fit
together. Versions are kept where possible; ``--upgrade`` is passed on to uv.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from crawlstream_cli.local.home import checkout

_UV = (str(Path(sys.executable).with_name("uv")), "pip", "compile", "--no-progress")
_HOW = (
    *("--universal", "--python-version", "3.11", "--generate-hashes"),
    *("--no-header", "--no-emit-index-url"),
)


def main(arguments: Sequence[str]) -> None:
    """Write all locks."""
    root = checkout("requirements.txt").parent
    project = tomllib.loads((root / "pyproject.toml").read_text())
    sets = {
        **{name: ("--extra", name) for name in project["project"]["optional-dependencies"]},
        **{name: ("--group", name) for name in project["dependency-groups"]},
    }
    files = [root / "requirements.txt", *sorted((root / "requirements").glob("*.txt"))]
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "whole.txt"
        # uv keeps the versions that it finds in its output file.
        known = _blocks("".join(file.read_text() for file in files))
        whole.write_text("".join(known.values()))
        everything = [word for named in sets.values() for word in named]
        _compile(root, *everything, *arguments, "-o", str(whole))
        base = _compile(root, "-c", str(whole))
        (root / "requirements.txt").write_text(base)
        for name, named in sets.items():
            blocks = _blocks(_compile(root, *named, "-c", str(whole)))
            more = "".join(blocks[head] for head in blocks if head not in _blocks(base))
            (root / "requirements" / f"{name}.txt").write_text(more)


def _compile(root: Path, *arguments: str) -> str:
    """Run uv in the checkout and return the lock that it prints."""
    argv = (*_UV, "pyproject.toml", *_HOW, *arguments)
    done = subprocess.run(argv, cwd=root, stdout=subprocess.PIPE, text=True, check=True)
    # Leave out the comments that name the file of constraints, which is temporary.
    return re.sub(r"^    #   -c .*\n", "", done.stdout, flags=re.MULTILINE)


def _blocks(lock: str) -> Mapping[str, str]:
    """Return each package with its hashes by its first line: name, version and marker."""
    blocks = re.split(r"^(?=\w)", lock, flags=re.MULTILINE)
    return {block.split(" \\\n", 1)[0]: block for block in blocks if block}


if __name__ == "__main__":
    main(sys.argv[1:])
