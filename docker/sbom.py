# ruff: noqa: INP001  a script, not a package
"""The bill of materials, CycloneDX 1.6 as JSON on standard output: every package and every jar.

    python docker/sbom.py >crawlstream.cdx.json

It is made of what installs them, the locks of packages and docker/jars.sha256, so it needs neither
an image nor a network. Markers of a requirement are kept as a property: not every machine has each.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]

_REQUIREMENT = re.compile(
    r"^(?P<name>[\w.-]+)(?:\[[\w,-]+\])?==(?P<version>[^\s;\\]+)"
    r"(?: *; *(?P<marker>[^\\\n]+?))? *\\$",
    re.MULTILINE,
)
_JAR = re.compile(
    r"^(?P<hash>[0-9a-f]{64})  (?P<name>.+?)-(?P<version>\d[\w.-]*)\.jar$", re.MULTILINE
)


def bill() -> dict[str, Any]:
    """The whole bill as a JSON object."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "name": project["name"],
                "version": project["version"],
                "licenses": [{"license": {"id": project["license"]}}],
            }
        },
        "components": [*_packages(), *_jars()],
    }


def _packages() -> Iterator[dict[str, Any]]:
    """Yield every locked package once; it has one hash per file, and one file is installed."""
    locks = [ROOT / "requirements.txt", *sorted((ROOT / "requirements").glob("*.txt"))]
    text = "".join(lock.read_text(encoding="utf-8") for lock in locks)
    # Sets have some packages in common; one needs everywhere what another needs on Windows.
    known: dict[tuple[str, str], re.Match[str]] = {}
    for found in _REQUIREMENT.finditer(text):
        key = (found["name"], found["version"])
        if key not in known or not found["marker"]:
            known[key] = found
    for found in known.values():
        url = f"pkg:pypi/{found['name'].lower().replace('_', '-')}@{found['version']}"
        yield {
            "type": "library",
            "bom-ref": url,
            "name": found["name"],
            "version": found["version"],
            "purl": url,
            **_properties(found["marker"]),
        }


def _properties(marker: str | None) -> dict[str, Any]:
    return {"properties": [{"name": "crawlstream:marker", "value": marker}]} if marker else {}


def _jars() -> Iterator[dict[str, Any]]:
    """What docker/jars.sha256 names, for the Kafka and ZooKeeper of a local cluster."""
    for found in _JAR.finditer((ROOT / "docker" / "jars.sha256").read_text(encoding="utf-8")):
        yield {
            "type": "library",
            "bom-ref": f"jar:{found['hash']}",
            "name": found["name"],
            "version": found["version"],
            "scope": "optional",
            "hashes": [{"alg": "SHA-256", "content": found["hash"]}],
        }


if __name__ == "__main__":
    json.dump(bill(), sys.stdout, indent=1)
    sys.stdout.write("\n")
