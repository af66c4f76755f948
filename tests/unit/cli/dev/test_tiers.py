"""`crawlstream test` hands pytest the files of a tier."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import pytest

from crawlstream.errors import ConfigError
from crawlstream_cli.dev.checks import CHECKED, CHECKS
from crawlstream_cli.dev.tests import PROOFS, QUICK, run_tests
from crawlstream_cli.local.home import checkout

A_PROOF = "tests/mutation"


@pytest.fixture
def handed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Arguments that pytest would be called with."""
    handed: list[str] = []

    def spy(program: str, argv: Sequence[str]) -> None:
        assert program == sys.executable
        handed.extend(argv)

    monkeypatch.setattr("os.execv", spy)
    return handed


def test_every_pattern_finds_files() -> None:
    """Names files that exist: a tier without files would run all tests."""
    assert [each for each in (*QUICK, *PROOFS) if not [*checkout("tests").parent.glob(each)]] == []


def test_proofs_are_left_out_unless_they_are_asked_for(handed: list[str]) -> None:
    """Ignores them by default, runs nothing else with --proofs, and runs a file that is named."""
    run_tests(["-x"])
    assert f"--ignore={A_PROOF}" in handed
    handed.clear()
    run_tests(["-x"], proofs=True)
    assert A_PROOF in handed
    assert handed[-1] == "-x"
    handed.clear()
    run_tests([f"{A_PROOF}/test_planted.py::test_it"])
    assert not any(each.startswith("--ignore") for each in handed)


def test_what_check_runs_no_tier_runs_again(handed: list[str]) -> None:
    """Leaves the tests of sizes, Lua and supply to `crawlstream check`, which runs each of them."""
    for quick in (False, True):
        handed.clear()
        run_tests(quick=quick)
        assert {f"--ignore={each}" for each in CHECKED} <= {*handed}
    assert {*CHECKED} <= {command[-1] for command in CHECKS.values()}


def test_tiers_exclude_each_other() -> None:
    """Refuses two tiers at once."""
    with pytest.raises(ConfigError, match="exclude each other"):
        run_tests(quick=True, proofs=True)
