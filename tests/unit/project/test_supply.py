"""Packages of others: the lock has all that is required, and the bill is whole."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections import Counter
from importlib.metadata import requires
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from crawlstream_cli.dev.checks import CHECKS

ROOT = Path(__file__).parents[3]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
SETS: dict[str, list[str]] = {
    **PROJECT["project"]["optional-dependencies"],
    **PROJECT["dependency-groups"],
}
ASKED = list(chain(PROJECT["project"]["dependencies"], *SETS.values()))
TEXTS = {
    "": (ROOT / "requirements.txt").read_text(),
    **{file.stem: file.read_text() for file in (ROOT / "requirements").iterdir()},
}
"""The locks: dependencies of the product, and additional ones of each set under its name."""


def _locked(text: str) -> set[tuple[str, str]]:
    return set(re.findall(r"^([\w.-]+)(?:\[.*\])?==([^\s;]+)", text, re.MULTILINE))


LOCK = _locked("".join(TEXTS.values()))
"""(name, version); one name may have several, for different machines."""


@pytest.mark.parametrize("text", ASKED)
def test_the_lock_is_above_every_floor(text: str) -> None:
    """Floors carry security fixes; a lock that was made by hand must not fall below one."""
    asked = Requirement(text)
    locked = [version for name, version in LOCK if name == canonicalize_name(asked.name)]
    assert locked
    assert all(asked.specifier.contains(version) for version in locked)


def test_all_that_is_installed_has_a_hash() -> None:
    """Packages by version, and jars: whatever else answers by their names is not installed."""
    text = "".join(TEXTS.values()).replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and line.lstrip()[0] != "#"]
    pinned = re.compile(r"[\w.-]+(\[.*\])?==[^\s;]+( ;[^#]*?)?( +--hash=sha256:[0-9a-f]{64})+ *")
    assert len({line.partition(" ")[0] for line in lines}) == len(LOCK)
    assert not [line for line in lines if not pinned.fullmatch(line)]
    jars = (ROOT / "docker" / "jars.sha256").read_text().splitlines()
    assert not [line for line in jars if not re.fullmatch(r"[0-9a-f]{64} [ *]\S+\.jar", line)]


def test_any_sets_fit_together() -> None:
    """Each has a lock of additional packages; all locks have the same version of a package."""
    assert TEXTS.keys() == {"", *SETS}
    marked = set(re.findall(r"^([\w.-]+)==\S+ ; ", "".join(TEXTS.values()), re.MULTILINE))
    base = {each for each, _ in _locked(TEXTS[""])}
    for name, asked in SETS.items():
        added = {each for each, _ in _locked(TEXTS[name])}
        assert added & base <= marked, name
        assert {canonicalize_name(Requirement(each).name) for each in asked} <= added | base
    several = {name for name, count in Counter(name for name, _ in LOCK).items() if count > 1}
    assert several <= marked


def test_only_what_runs_comes_with_the_product() -> None:
    """Packages that are large and optional, or for developers, are in the locks of sets."""
    base = {name for name, _ in _locked(TEXTS[""])}
    card = {"scrapy", "kafka-python", "redis", "kazoo", "jsonschema", "supervisor"}
    assert card <= base
    assert not base & {"pyarrow", "numpy", "botocore", "curl-cffi", "pytest", "mypy", "ruff", "uv"}


def test_the_builder_of_the_image_finds_what_it_imports() -> None:
    """All that hatchling requires is installed with it, or where the image's builder looks, too."""
    installed = {
        name: set(re.findall(r"^([\w.-]+)==", (ROOT / name).read_text(), re.MULTILINE))
        for name in ("requirements/build.txt", "requirements.txt")
    }
    build = installed["requirements/build.txt"]
    required = [Requirement(text) for name in build for text in requires(name) or ()]
    needed = {
        canonicalize_name(each.name)
        for each in required
        if each.marker is None or each.marker.evaluate({"extra": ""})
    }
    assert needed <= build | installed["requirements.txt"]
    dockerfile = (ROOT / "docker" / "Dockerfile").read_text()
    assert needed <= build or "RUN PYTHONPATH=$(echo /opt/crawlstream/lib/" in dockerfile


def test_check_looks_at_the_lock() -> None:
    """Checks the lock in `check`, as SECURITY.md says, not only in all tests."""
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
