"""The seeds of a firing: read within bounds, and told why there are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from crawlstream.model.recurring.schedule import Schedule
from crawlstream.store.store import StoreUnavailable
from redis_monitor.schedules import seed_reader
from redis_monitor.schedules.seed_reader import Feed, NoSeeds, SeedReader


def schedule(seeds_from: str | None = None, *urls: str) -> Schedule:
    """A schedule with its own seeds or a file's."""
    own = [{"url": url} for url in urls]
    return Schedule(appid="app", name="news", cron="* * * * *", seeds=own, seeds_from=seeds_from)


async def feed_of(folder: Path) -> Feed:
    """A request to feed a file of the operator's folder."""
    return await SeedReader([f"file://{folder}"]).feed_of(schedule(f"file://{folder}/a.txt"))


async def test_the_same_seeds_have_the_same_digest(tmp_path: Path) -> None:
    """Gives equal seeds an equal digest, and others another, of files and schedules."""
    file, reader = tmp_path / "a.txt", SeedReader([])
    file.write_text("http://a.com/\nhttp://b.com/\n")
    first = await feed_of(tmp_path)
    assert (first.count, [each["url"] for each in first.read()]) == (
        *(2, ["http://a.com/", "http://b.com/"]),
    )
    assert (await feed_of(tmp_path)).digest == first.digest
    file.write_text("http://a.com/\nhttp://c.com/\n")
    assert (await feed_of(tmp_path)).digest != first.digest
    assert len(list(first.read())) == 2, "what is fed is what was read"
    own = [await reader.feed_of(schedule(None, *urls)) for urls in ("ab", "ab", "ac")]
    assert own[0].digest == own[1].digest != own[2].digest


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "does not exist"),
        ("", "has 0 seeds"),
        ("# nothing\n", "has 0 seeds"),
        ("http://a.com/\n" * 4, "has 4 seeds, not 1 to 3"),
        ("http://a.com/" + "x" * 100, "has more than 80 bytes"),
    ],
)
async def test_a_file_without_seeds_says_so(
    content: str | None, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names a file without seeds, and what is wrong with it."""
    monkeypatch.setattr(seed_reader, "MOST_BYTES", 80)
    monkeypatch.setattr(seed_reader, "MOST_SEEDS", 3)
    if content is not None:
        (tmp_path / "a.txt").write_text(content)
    with pytest.raises(NoSeeds) as told:
        await feed_of(tmp_path)
    assert str(told.value).startswith(f"file://{tmp_path}/a.txt")
    assert why in str(told.value)


async def test_what_the_operator_does_not_allow_is_not_read(tmp_path: Path) -> None:
    """Reads no file that is no longer allowed, and none that no library can read."""
    (tmp_path / "a.txt").write_text("http://a.com/")
    with pytest.raises(NoSeeds, match="CRAWLSTREAM_SEED_STORES"):
        await SeedReader(["file:///elsewhere"]).feed_of(schedule(f"file://{tmp_path}/a.txt"))
    with pytest.raises(NoSeeds, match="odd"):
        await SeedReader(["odd://x"]).feed_of(schedule("odd://x/a.txt"))


async def test_a_store_that_does_not_answer_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each attempt is short."""
    (tmp_path / "a.txt").write_text("http://a.com/")
    monkeypatch.setattr(seed_reader, "WITHIN_S", 0)
    with pytest.raises(StoreUnavailable, match="was not read within"):
        await feed_of(tmp_path)
