"""What is installed from others: the lock keeps what is asked for, and the bill is whole."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from crawlstream_cli.dev.checks import CHECKS

ROOT = Path(__file__).parents[3]
LOCK = re.findall(
    r"^([\w.-]+)(?:\[.*\])?==([^\s;]+)", (ROOT / "requirements.txt").read_text(), re.MULTILINE
)
"""(name, version); one name may have several, for different machines."""
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
ASKED = list(chain(PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()))


@pytest.mark.parametrize("text", ASKED)
def test_the_lock_is_above_every_floor(text: str) -> None:
    """Floors carry security fixes; a lock that was made by hand must not fall below one."""
    asked = Requirement(text)
    locked = [version for name, version in LOCK if name == canonicalize_name(asked.name)]
    assert locked
    assert all(asked.specifier.contains(version) for version in locked)


def test_all_that_is_installed_has_a_hash() -> None:
    """Packages by version, and jars: whatever else answers by their names is not installed."""
    text = (ROOT / "requirements.txt").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and line.lstrip()[0] != "#"]
    pinned = re.compile(r"[\w.-]+(\[.*\])?==[^\s;]+( ;[^#]*?)?( +--hash=sha256:[0-9a-f]{64})+ *")
    assert len(lines) == len(LOCK)
    assert not [line for line in lines if not pinned.fullmatch(line)]
    jars = (ROOT / "docker" / "jars.sha256").read_text().splitlines()
    assert not [line for line in jars if not re.fullmatch(r"[0-9a-f]{64} [ *]\S+\.jar", line)]


def test_check_looks_at_the_lock() -> None:
    """As SECURITY.md says: before a change is shared, not only when all tests are run."""
    assert "tests/unit/project/test_supply.py" in chain(*CHECKS.values())


def test_the_bill_of_materials_is_whole() -> None:
    """Every locked package and every jar is on it once, with what a scanner looks for."""
    argv = [sys.executable, str(ROOT / "docker" / "sbom.py")]
    bill = json.loads(subprocess.run(argv, capture_output=True, check=True).stdout)
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    refs = [component["bom-ref"] for component in bill["components"]]
    assert len(refs) == len(set(refs))
    packages = {f"pkg:pypi/{name.lower()}@{version}" for name, version in LOCK}
    assert packages == {ref for ref in refs if ref.startswith("pkg:")}
    jars = (ROOT / "docker" / "jars.sha256").read_text().split()[::2]
    assert {f"jar:{digest}" for digest in jars} == {ref for ref in refs if ref.startswith("jar:")}
