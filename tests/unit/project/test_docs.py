"""The documentation says what the code does: made parts are current, and nothing leads nowhere."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from crawlstream.boot.settings import Settings
from crawlstream_cli.dev.changed import PACKAGES
from crawlstream_cli.verbs import VERBS
from support.reference import DOCS, METRICS, PAGES, exported, load, metrics_of, renewed

ROOT = DOCS.parent
HOUSES = tuple(PACKAGES)
PROSE = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
PROSE.remove(DOCS / "cli.md")  # Its lines are patterns, and made from the commands.
UPDATE = os.environ.get("UPDATE_DOCS") == "1"
"""True: generated parts are written instead of compared."""


@pytest.mark.parametrize("name", PAGES)
def test_made_parts_are_current(name: str) -> None:
    """Settings, metrics and commands stand in the documentation as they are in the code."""
    page = DOCS / name
    wanted = renewed(page, PAGES[name]())
    if UPDATE:
        page.write_text(wanted, encoding="utf-8")
    assert page.read_text(encoding="utf-8") == wanted, (
        f"docs/{name} is out of date:"
        " UPDATE_DOCS=1 ./crawlstream test -n 0 tests/unit/project/test_docs.py"
    )


def test_every_setting_is_explained() -> None:
    """Each variable is on the page, once, and has a meaning."""
    rows = re.findall(r"^\| `.*$", (DOCS / "settings.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(rows) == len(Settings.model_fields)
    assert not [row for row in rows if row.endswith("|  |")]


def test_metrics_are_made_where_the_page_looks() -> None:
    """Defines metrics only in modules ``metrics`` that the page reads."""
    found = {
        path.relative_to(ROOT / path.relative_to(ROOT).parts[0]).as_posix()
        for house in HOUSES
        for path in (ROOT / house).rglob("*.py")
        if _makes_metrics(path)
    }
    known = {module.replace(".", "/") + ".py" for module in METRICS.values()}
    assert found == known


def _makes_metrics(path: Path) -> bool:
    """Return whether a module calls one of the classes of prometheus_client."""
    text = path.read_text(encoding="utf-8")
    return "prometheus_client" in text and any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in {"Counter", "Gauge", "Histogram", "Summary"}
        for node in ast.walk(ast.parse(text))
    )


def test_metrics_are_named_alike() -> None:
    """All begin with one prefix, have a sentence, and name a time in seconds, a size in bytes."""
    metrics = [metric for module in METRICS.values() for metric in metrics_of(module)]
    names = [metric._name for metric in metrics]
    assert len(set(names)) == len(names)
    for metric in metrics:
        assert re.fullmatch(r"crawlstream_[a-z_]+", metric._name)
        assert not re.search(r"_(ms|kb|mb|milliseconds|total)$", metric._name)
        assert metric._documentation.endswith(".")
        assert metric._type != "histogram" or metric._name.endswith("_seconds")
        assert all(name.startswith("crawlstream_") for name in exported(metric))


def test_events_of_the_log_are_listed() -> None:
    """Each is a verb of a hop, or is on the page that explains logs, which lists no others."""
    architecture, monitoring = (
        (DOCS / name).read_text() for name in ("architecture.md", "monitoring.md")
    )
    hops = set(re.findall(r"^\| `(\w+)` \|", architecture, re.MULTILINE))
    (aside,) = re.findall(r"^On the side:(.*?)\n\n", architecture, re.MULTILINE | re.DOTALL)
    rows = re.findall(r"^\| (`.*?) \|", monitoring.partition("## Logs")[2], re.MULTILINE)
    others = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    logged = {event for path in _sources() for event in _events(path)}
    assert logged <= hops | set(re.findall(r"`(\w+)`", aside)) | others
    assert others <= logged
    assert hops - logged == {"to_scrapy"}


def _sources() -> list[Path]:
    return [path for house in HOUSES for path in (ROOT / house).rglob("*.py")]


def _events(path: Path) -> Iterator[str]:
    """Return the events that a module logs, by itself or by the name of its liveness."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = ast.unparse(node.func)
            if re.fullmatch(r"Liveness|log\.(debug|info|warning|error|exception)", called):
                yield str(node.args[0].value)


@pytest.mark.parametrize("page", PROSE, ids=lambda path: path.name)
def test_commands_are_ones_that_exist(page: Path) -> None:
    """Parses every ./crawlstream command of the pages: its verb, options and values."""
    for line in re.findall(r"\./crawlstream ([^`\n#|]+)", page.read_text(encoding="utf-8")):
        name, *arguments = shlex.split(re.sub(r"(--\w+) N\b", r"\1 1", line))
        command, passes_options = load(name), VERBS[name].passes_options
        while hasattr(command, "list_commands"):
            name = arguments.pop(0)
            command = command.get_command(command.context_class(command), name)
            assert command, line
        command.make_context(name, arguments, ignore_unknown_options=passes_options).close()


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", ROOT / "CONTRIBUTING.md"], ids=lambda p: p.name
)
def test_links_of_pages_outside_the_site_lead_somewhere(page: Path) -> None:
    """Files that README and CONTRIBUTING link to exist; mkdocs looks after all other pages."""
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8")):
        assert (ROOT / target).exists(), target


def test_requests_that_are_fed_in_examples_fit_their_schema() -> None:
    """A copy of an example is accepted."""
    schema = json.loads((ROOT / "utils/crawlstream/wire/schema/scraper.json").read_text())
    told = "".join(page.read_text(encoding="utf-8") for page in [*PROSE, DOCS / "cli.md"])
    fed = [json.loads(each) for each in re.findall(r"feed '(\{.*?\})'", told)]
    assert fed
    for request in fed:
        Draft202012Validator(schema).validate(request)
