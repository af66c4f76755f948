"""Files that use the session's cluster run on two workers; the longest file runs on three."""

from __future__ import annotations

import re
from collections import Counter

from crawlstream_cli.local.home import checkout
from support.session.scheduling import DIVIDED, SHARING, ByCluster

_TESTS = checkout("tests")
_FOLDERS = ("chaos", "e2e", "fundamentals")
"""Where the fixture is."""
_USES = re.compile(r"\b(cluster: Cluster|witness: Witness)\b")


class _Config:
    """The part of pytest's configuration that a scheduler reads."""

    def getvalue(self, _name: str) -> list[str]:
        """Return the workers."""
        return ["6*popen"]


def _files() -> list[str]:
    paths = [path for each in _FOLDERS for path in sorted((_TESTS / each).glob("test_*.py"))]
    return [
        str(path.relative_to(_TESTS.parent)) for path in paths if _USES.search(path.read_text())
    ]


def test_every_file_that_uses_the_cluster_is_known() -> None:
    """Names all of them: each that is missing starts a cluster on one more worker."""
    assert _files()
    assert [each for each in _files() if not each.startswith(SHARING)] == []
    assert [each for each in SHARING if not any(file.startswith(each) for file in _files())] == []


def test_files_take_the_clusters_by_turns() -> None:
    """Halves the files between two scopes; any other file is a scope of its own."""
    scheduler = ByCluster(_Config(), None)
    tests = [f"{file}::test_{name}" for file in _files() for name in "ab"]
    scopes = {each: scheduler._split_scope(each) for each in tests}
    files = Counter(scopes[each] for each in tests if each.endswith("_a"))
    assert sorted(files) == ["cluster 0", "cluster 1"]
    assert abs(files["cluster 0"] - files["cluster 1"]) <= 1
    assert all(scopes[each] == scopes[each[:-1] + "b"] for each in tests)
    assert scheduler._split_scope("tests/unit/test_x.py::test_y") == "tests/unit/test_x.py"


def test_the_longest_files_are_divided() -> None:
    """Each worker gets an equal part of the tests, and a test is always in the same part."""
    scheduler = ByCluster(_Config(), None)
    for file, workers in DIVIDED.items():
        assert (_TESTS.parent / file).is_file()
        tests = [f"{file}::test_x[{n}]" for n in range(2 * workers)]
        scopes = [scheduler._split_scope(each) for each in tests]
        assert set(Counter(scopes).values()) == {2}
        assert len(set(scopes)) == workers
        assert [scheduler._split_scope(each) for each in tests] == scopes
