"""Code that stands in the documentation, for tests that run it as written."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"


def write_example_project(folder: Path) -> None:
    """Write the example project of ``docs/spiders.md`` into a folder, its tests too."""
    text = (DOCS / "spiders.md").read_text()
    files = re.findall(r"^`([\w./]+)`\n\n```\w+\n(.*?)```", text, re.DOTALL | re.MULTILINE)
    assert len(files) == 5
    for name, code in files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code)
    for package in ("shop", "shop/spiders"):
        (folder / package / "__init__.py").touch()


def install_example_plugin(site: Path) -> None:
    """Install the example of ``docs/plugins.md`` and its tests into a folder, as pip would."""
    _install("plugins.md", site)


def install_example_sink(site: Path) -> None:
    """Install the example of ``docs/sinks.md`` in that way."""
    _install("sinks.md", site)


def _install(page: str, site: Path) -> None:
    text = (DOCS / page).read_text()
    toml = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)[0]
    project = tomllib.loads(toml)["project"]
    name, points = project["name"], project["entry-points"]
    info = site / f"{name}-1.dist-info"
    info.mkdir(parents=True)
    for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        named = re.match(rf'"""((?:test_)?{name}\.py)', code)
        assert named, code
        (site / named[1]).write_text(code)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    lines = [
        f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in entries.items())
        for group, entries in points.items()
    ]
    (info / "entry_points.txt").write_text("\n".join(lines))
