"""`crawlstream test --changed` selects the test files that a change can reach."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from crawlstream.errors import ConfigError
from crawlstream_cli.dev.changed import Suite, loading_graph, reached_tests
from crawlstream_cli.local.home import checkout

FILES = {
    "crawler/crawling/links/children.py": "",
    "frontier/crawlstream_frontier/lua/includes/admit.lua": "",
    "cli/crawlstream_cli/app.py": 'VERB = "crawlstream_cli.steer:stop"',
    "cli/crawlstream_cli/local/supervisor.py": 'FILE = "supervisord.conf"',
    "cli/crawlstream_cli/local/health_listener.py": "",
    "cli/crawlstream_cli/steer.py": "",
    "docs/wire.md": "",
    "supervisord.conf": "command = python -m crawlstream_cli.local.health_listener",
    "pipeline/pipeline_service/formats/__init__.py": "",
    "pipeline/pipeline_service/formats/files.py": (
        'import_module(f"pipeline_service.formats.{name}")'
    ),
    "pipeline/pipeline_service/formats/warc.py": "",
    "tests/conftest.py": "import crawlstream.keys",
    "tests/support/pages.py": "from crawling.links import children",
    "tests/unit/test_command.py": "from crawlstream_cli.app import run",
    "tests/unit/test_direct.py": "from crawling.links.children import Children",
    "tests/unit/test_files.py": "from pipeline_service.formats.files import make_writer",
    "tests/unit/test_frontier.py": "from crawlstream_frontier.frontier import Frontier",
    "tests/unit/test_other.py": "import crawlstream.wire.jsontext",
    "tests/contract/test_helped.py": "from support.pages import children",
    "tests/unit/test_supervisor.py": "import crawlstream_cli.local.supervisor",
    "tests/e2e/conftest.py": 'PROGRAM = "crawling"',
    "tests/e2e/test_started.py": "",
}
"""A small checkout: the product, its data, its tests, one file for each way to reach a test."""

Change = Callable[[str], Sequence[str]]


@pytest.fixture
def change(tmp_path: Path) -> Change:
    """A function that changes one file of a checkout and returns the tests that this reaches."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    for words in (("init", "-q"), ("add", "."), (*identity, "commit", "-q", "-m", "Begin")):
        subprocess.run(("git", *words), cwd=tmp_path, check=True)

    def run(name: str) -> Sequence[str]:
        (tmp_path / name).write_text(FILES.get(name, "") + "\n# changed\n")
        return reached_tests(tmp_path, "HEAD")

    return run


def test_a_module_reaches_its_importers_and_those_that_start_its_process(change: Change) -> None:
    """Selects importers, users of a helper that imports it, and tests that start its process."""
    assert change("crawler/crawling/links/children.py") == [
        "tests/unit/test_direct.py",
        "tests/contract/test_helped.py",
        "tests/e2e/test_started.py",
    ]


@pytest.mark.parametrize(
    ("file", "test"),
    [
        ("cli/crawlstream_cli/steer.py", "tests/unit/test_command.py"),
        ("pipeline/pipeline_service/formats/warc.py", "tests/unit/test_files.py"),
        ("pipeline/pipeline_service/formats/__init__.py", "tests/unit/test_files.py"),
        ("cli/crawlstream_cli/local/health_listener.py", "tests/unit/test_supervisor.py"),
        ("supervisord.conf", "tests/unit/test_supervisor.py"),
    ],
    ids=["command", "format", "package", "program", "configuration"],
)
def test_a_module_that_is_loaded_by_its_name_reaches_tests(
    change: Change, file: str, test: str
) -> None:
    """Selects the users of a module that names another in a string, and so loads it later."""
    assert test in change(file)


def test_no_module_of_the_product_is_out_of_reach() -> None:
    """Reaches a test from each module: one that none reaches would change unseen."""
    root = checkout("tests").parent
    graph = loading_graph(root)
    for each in Suite(root).named & graph.modules:
        graph.add_import(importer="tests", imported=each)
    reached = {"tests", *graph.find_upstream_modules("tests")}
    packages = {each for each in graph.modules if graph.find_children(each)}
    assert graph.modules - reached - packages == set()


def test_lua_reaches_what_uses_the_frontier(change: Change) -> None:
    """Selects users of the frontier's Python for a change of its Lua."""
    found = change("frontier/crawlstream_frontier/lua/includes/admit.lua")
    assert "tests/unit/test_frontier.py" in found
    assert "tests/unit/test_other.py" not in found


def test_a_fixture_reaches_all_tests_below_it(change: Change) -> None:
    """Selects every test file for a change of the topmost fixtures, and none twice."""
    every = sorted(each for each in FILES if Path(each).name.startswith("test_"))
    assert sorted(change("tests/conftest.py")) == every


def test_a_test_reaches_itself(change: Change) -> None:
    """Selects a changed test file, and a new one that git does not track yet."""
    assert change("tests/unit/test_other.py") == ["tests/unit/test_other.py"]
    assert change("tests/unit/test_new.py")[:1] == ["tests/unit/test_new.py"]


def test_documentation_reaches_the_tests_of_the_project(change: Change) -> None:
    """Selects the tests of documentation and images for a file that is not a module."""
    assert change("docs/wire.md") == ["tests/unit/project"]


def test_an_unknown_commit_is_an_error(tmp_path: Path) -> None:
    """Reports what git says of a commit that does not exist."""
    with pytest.raises(ConfigError, match="cannot say what has changed"):
        reached_tests(tmp_path, "nope")
