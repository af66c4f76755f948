"""The command line itself: every verb is there, help is quick, errors are sentences."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import typer

from crawlstream.errors import ConfigError, SetupError
from crawlstream_cli.app import run
from crawlstream_cli.verbs import VERBS


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_leads_somewhere(name: str) -> None:
    """The table names functions and commands that exist."""
    module, _, target = VERBS[name].target.partition(":")
    found = getattr(import_module(module), target)
    assert callable(found) or isinstance(found, typer.Typer)


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """``crawlstream VERB --help`` shows how to call it."""
    assert run([name, "--help"]) == 0
    assert f"crawlstream {name}" in capsys.readouterr().out


def test_help_fits_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Paragraphs are wrapped by its width, not the code's; types are words, or left out."""
    monkeypatch.setenv("COLUMNS", "100")
    assert run(["throttle", "set", "--help"]) == 0
    told = capsys.readouterr().out
    assert "applies to that host and its subdomains," in told
    assert "``" not in told
    assert "<bool>" not in told
    assert "--hits" in told
    assert " N [0<=x<=" in told


def test_the_list_of_verbs_has_headings(capsys: pytest.CaptureFixture[str]) -> None:
    """A newcomer sees what there is for them; every verb stands under one heading."""
    assert run(["--help"]) == 0
    told = capsys.readouterr().out
    headings = list(dict.fromkeys(verb.panel for verb in VERBS.values()))
    places = [told.index(heading) for heading in headings]
    assert places == sorted(places)
    assert "<bool>" not in told


def test_the_list_of_verbs_loads_none_of_them() -> None:
    """Help comes at once: neither Kafka nor Scrapy nor pydantic is imported for it."""
    program = (
        "import sys; from crawlstream_cli.app import run; run(['--help']);"
        "heavy = {'kafka', 'scrapy', 'redis', 'pydantic', 'twisted'} & set(sys.modules);"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (SetupError("it is missing:\n  get it"), 1, "crawlstream: it is missing: get it\n"),
        (ConfigError("PORT: no"), 2, "crawlstream: PORT: no\n"),
        (ValueError("odd"), 1, "crawlstream: unexpected ValueError: odd\n"),
        (
            ExceptionGroup("of tasks", [ExceptionGroup("", [ValueError("odd")]), OSError("even")]),
            1,
            "crawlstream: unexpected ValueError: odd; OSError: even\n",
        ),
    ],
)
def test_errors_are_one_sentence(
    error: Exception,
    status: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """No stack trace without CRAWLSTREAM_DEBUG; the status distinguishes settings from the rest."""

    def fail() -> None:
        raise error

    monkeypatch.delenv("CRAWLSTREAM_DEBUG", raising=False)
    monkeypatch.setattr("crawlstream_cli.machine.down.down", fail)
    assert run(["down"]) == status
    assert capsys.readouterr().err == said

    monkeypatch.setenv("CRAWLSTREAM_DEBUG", "1")
    with pytest.raises(type(error)):
        run(["down"])


def test_wrong_calls_exit_2(capsys: pytest.CaptureFixture[str]) -> None:
    """An unknown verb or option is refused before anything is loaded."""
    assert run(["nope"]) == 2
    assert run(["down", "--nope"]) == 2
    assert "nope" in capsys.readouterr().err


def test_options_of_pytest_reach_pytest(monkeypatch: pytest.MonkeyPatch) -> None:
    """`crawlstream test` hands on every option that is not its own, in order."""
    seen: list[list[str]] = []

    def spy(arguments: list[str]) -> None:
        seen.append(arguments)

    monkeypatch.setattr("crawlstream_cli.dev.tests.run_tests", spy)
    assert run(["test", "-x", "-k", "a or b", "tests/unit", "--lf"]) == 0
    assert seen == [["-x", "-k", "a or b", "tests/unit", "--lf"]]


def test_the_env_file_counts_for_every_verb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Variables in ``.env`` are in the environment before a verb runs, unless set already."""
    (tmp_path / ".env").write_text("KAFKA_TOPIC_PREFIX=in-file\nKAFKA_GROUP=in-file\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KAFKA_GROUP", "in-environment")
    # Only what was there is restored after the test.
    monkeypatch.setenv("KAFKA_TOPIC_PREFIX", "")
    del os.environ["KAFKA_TOPIC_PREFIX"]
    assert run(["--version"]) == 0
    assert os.environ["KAFKA_TOPIC_PREFIX"] == "in-file"
    assert os.environ["KAFKA_GROUP"] == "in-environment"


def test_the_env_file_of_somebody_else_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Reads no `.env` of another user, who could choose the servers of a command."""
    (tmp_path / ".env").write_text("KAFKA_TOPIC_PREFIX=theirs\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.getuid", lambda: 4711)
    if (tmp_path / ".env").stat().st_uid == 0:
        os.chown(tmp_path / ".env", 4712, -1)
    assert run(["--version"]) == 2
    assert "is owned by another user" in capsys.readouterr().err
    assert os.environ.get("KAFKA_TOPIC_PREFIX") != "theirs"


def test_a_mistyped_verb_is_answered_by_the_one_it_is_like(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Status 2, as for any wrong call."""
    assert run(["crwal", "http://127.0.0.1/"]) == 2
    assert "Did you mean 'crawl'" in " ".join(capsys.readouterr().err.split())


def test_a_rule_without_values_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """It says what can be given; ZooKeeper is not asked."""
    assert run(["throttle", "set", "127.0.0.6"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("crawlstream: nothing to set for 127.0.0.6: give at least one of --hits")
    assert "--window" in said
