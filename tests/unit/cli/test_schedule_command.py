"""``crawlstream schedule``: what needs no cluster."""

from __future__ import annotations

import json
import re
from itertools import islice
from pathlib import Path

import pytest

from crawlstream.model.recurring.schedule import Schedule
from crawlstream.model.recurring.times import times_of
from crawlstream.model.scope import Scope
from crawlstream_cli.app import run
from crawlstream_cli.crawl.recurring import Recurring, cron_of, definition_of, name_of

NEWS = {
    "cron": "*/10 * * * *",
    "zone": "Europe/Berlin",
    "crawl": {"crawlid": "news", "maxdepth": 1},
    "seeds": ["https://www.example.com/"],
}
GUIDE = Path(__file__).parents[3] / "docs" / "recurring.md"


def test_a_dry_run_shows_the_next_times(capsys: pytest.CaptureFixture[str]) -> None:
    """Shows the next times in the zone of the schedule, and feeds nothing."""
    assert run(["schedule", "set", "news", json.dumps(NEWS), "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d0:00 CES?T", line) for line in lines)


def test_a_file_is_as_good(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``next`` takes one, too, and prints the times as numbers."""
    path = tmp_path / "news.json"
    path.write_text(json.dumps(NEWS))
    assert run(["schedule", "next", str(path), "-n", "3", "--json"]) == 0
    times = json.loads(capsys.readouterr().out)
    assert [later - times[0] for later in times] == [0, 600, 1_200]


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        ({**NEWS, "cron": "@hourly"}, "write `0 * * * *`"),
        ({**NEWS, "zone": "Berlin"}, "not a time zone"),
        ({**NEWS, "seeds": ["ftp://a.com"]}, "the scheme 'ftp' is not http or https"),
        ({**NEWS, "jitter_s": 600}, "must be less than 600"),
        ({**NEWS, "appid": "x"}, "use NAME and --appid"),
        ({"cron": "0 * * * *"}, "is required by `set`"),
    ],
)
def test_what_is_wrong_is_told(
    told: dict[str, object], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A single sentence, and nothing is fed."""
    assert run(["schedule", "set", "news", json.dumps(told), "--dry-run"]) in {1, 2}
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize("text", ["{", "no-such-file.json", "[]"])
def test_what_is_no_object_is_told(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Refuses an argument that is neither JSON nor a file."""
    assert run(["schedule", "set", "news", text, "--dry-run"]) == 2
    assert "JSON" in capsys.readouterr().err


def test_every_line_of_the_guide_is_a_schedule(capsys: pytest.CaptureFixture[str]) -> None:
    """Fields that the table allows are accepted, besides those of the example."""
    rows = re.findall(r"^\| [^|]+ \| (`.*) \|$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(rows) >= 9
    for row in rows:
        fields = ", ".join(re.findall(r"`(\"[^`]*)`", row))
        assert fields, row
        told = {**NEWS, **json.loads(f"{{{fields}}}")}
        if "seeds_from" in told:
            del told["seeds"]
        if told["cron"] == "0 6 * * 1-5":
            assert told["zone"] == "Europe/Berlin"
        assert run(["schedule", "next", json.dumps(told), "-n", "1"]) == 0, row
        assert capsys.readouterr().out


def test_a_schedule_of_options_crawls_as_crawl_does() -> None:
    """Follows links to the hosts of the seeds only, and each firing is a crawl of its own."""
    urls = ["https://shop.example.com/a", "https://shop.example.com/b"]
    told = definition_of("shop", urls, Recurring(cron="0 2 * * *", depth=3))
    assert told == {
        "cron": "0 2 * * *",
        "zone": "UTC",
        "scope": "any",
        "crawl": {
            "crawlid": "shop-{at}",
            "spiderid": "link",
            "maxdepth": 3,
            "allowed_domains": ["shop.example.com"],
        },
        "seeds": urls,
    }
    again = definition_of(
        "shop", urls, Recurring(cron="0 2 * * *", scope=Scope.ANY, spider="api", new_only=True)
    )
    assert again["crawl"] == {
        "crawlid": "shop",
        "remember": 30 * 86_400,
        "spiderid": "api",
        "maxdepth": 0,
    }


@pytest.mark.parametrize("name", ["shop", "s" * 23, "s" * 40])
def test_a_schedule_of_options_is_valid(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Makes a valid schedule of options, with a name of any length, in its zone."""
    words = [
        "schedule",
        "set",
        name,
        "https://example.com/",
        "--scope",
        "prefix",
        "--depth",
        "2",
        "--dry-run",
    ]
    times = ["--cron", "30 2 * * *", "--zone", "Europe/Berlin"]
    assert run([*words, *times]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d 02:30:00 CES?T", line) for line in lines)
    assert len(lines) == 5


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["https://example.com/"], "URLs need --cron"),
        ([json.dumps(NEWS), "--depth", "2"], "options of a crawl go with --cron"),
        ([json.dumps(NEWS), json.dumps(NEWS)], "expected one JSON object"),
        (["https://example.com/", "--cron", "@daily"], "write `0 0 * * *`"),
        (["ftp://example.com/", "--cron", "0 0 * * *"], "the scheme 'ftp' is not http or https"),
        (["https://a.com/", "--cron", "0 0 * * *", "--zone", "Berlin"], "not a time zone"),
    ],
)
def test_options_that_make_no_schedule_are_refused(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Refuses such options with a sentence that says what to write."""
    assert run(["schedule", "set", "news", *words, "--dry-run"]) in {1, 2}
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize(
    ("every", "gap_s"),
    [("1d", 86_400), ("7d", 604_800), ("6h", 21_600), ("1h", 3_600), ("20m", 1_200), ("1m", 60)],
)
def test_every_is_the_gap_between_two_firings(every: str, gap_s: int) -> None:
    """Fires at the given interval, from the time of day at which it is typed."""
    began = 1_795_841_904
    told = Schedule(appid="app", name="shop", cron=cron_of(every, began))
    first, *later = islice(times_of(told, began - 60), 3)
    assert began - first < 60
    assert [at - first for at in later] == [gap_s, 2 * gap_s]


@pytest.mark.parametrize("every", ["7m", "5h", "2d", "tomorrow", "0m"])
def test_what_a_clock_cannot_repeat_is_refused(
    every: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Refuses other intervals by naming the possible ones, and feeds nothing."""
    assert run(["crawl", "https://example.com/", "--every", every]) == 2
    assert "or a cron expression" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["-o", "pages.jsonl"], ["--detach"]])
def test_a_schedule_writes_no_results(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """It names what does."""
    assert run(["crawl", "https://example.com/", "--every", "1d", *words]) == 2
    assert "crawlstream pipeline" in capsys.readouterr().err


def test_a_schedule_without_a_name_is_called_after_its_host() -> None:
    """Names a schedule after its host, in valid characters."""
    assert name_of(["https://www.example.com/a", "https://other.com/"]) == "www.example.com"
    assert name_of([f"https://{'a' * 60}.com/"]) == "a" * 40
