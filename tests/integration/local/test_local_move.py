"""The folders of a local cluster that is moved change places, wherever that is cut off."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from crawlstream.boot.variables import environment_without_settings
from crawlstream.errors import ConfigError, SetupError
from crawlstream_cli.local.partitions import Stage, choose_partitions, note_move, partitions_in
from crawlstream_cli.repartition import local
from crawlstream_cli.repartition.local import LocalMove, local_cluster

Cut = Callable[[str], None]


class Killed(Exception):
    """In place of a SIGKILL: nothing is done any more."""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Three partitions, of which four have been made: only the folders are to change places."""
    for name in ("redis-0", "redis-1", "redis-2"):
        (tmp_path / "data" / name).mkdir(parents=True)
        (tmp_path / "data" / name / "old").touch()
    for name in ("redis-0", "redis-1", "redis-2", "redis-3"):
        (tmp_path / "repartition" / "data" / name).mkdir(parents=True)
        (tmp_path / "repartition" / "data" / name / "new").touch()
    (tmp_path / "data" / "partitions").write_text("3\n")
    note_move(move(tmp_path).home, Stage(3, 4, is_copied=True))
    return tmp_path


def move(home: Path, to: int = 4) -> LocalMove:
    """As the command begins it."""
    env = {**environment_without_settings(os.environ), "CRAWLSTREAM_HOME": str(home)}
    return LocalMove(local_cluster(env), to)


@pytest.mark.parametrize("step", ["placing", "half_placed"])
def test_what_was_cut_off_is_continued(
    home: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No new folder is taken for an old one, and the number is that of the new ones."""

    def killed_at(reached: str) -> None:
        if reached == f"repartition_{step}":
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(local, "failpoint", killed_at)
        with pytest.raises(Killed):
            move(home).place()
    with pytest.raises(SetupError, match="is being moved"):
        choose_partitions(move(home).home, None)
    with pytest.raises(SetupError, match=r"into 4 partition"):
        move(home, to=2)
    again = move(home)
    assert again.is_copied
    again.place()
    data, before = home / "data", home / "repartition" / "before"
    assert sorted(path.name for path in data.glob("redis-*/new")) == ["new"] * 4
    assert sorted(path.name for path in before.glob("redis-*/old")) == ["old"] * 3
    assert partitions_in(again.home) == 4
    with pytest.raises(SetupError, match="from before an earlier move"):
        move(home, to=1).require_change()
    move(home).forget()
    assert not (home / "repartition").exists()


def test_what_cannot_be_is_said(home: Path) -> None:
    """A number that is there already, or too large; servers of another owner."""
    note_move(move(home).home, None)
    (home / "repartition").rename(home / "away")
    with pytest.raises(SetupError, match="has 3 partition"):
        move(home, to=3).require_change()
    with pytest.raises(ConfigError, match="at most 16"):
        move(home, to=17)
    with pytest.raises(SetupError, match="is not running"):
        move(home).begin()
    env = {**environment_without_settings(os.environ), "CRAWLSTREAM_HOME": str(home)}
    with pytest.raises(ConfigError, match="--redis"):
        LocalMove(local_cluster({**env, "REDIS_HOST": "elsewhere"}), 4)
