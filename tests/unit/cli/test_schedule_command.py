"""``crawlstream schedule``: what needs no cluster."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from crawlstream_cli.app import run

NEWS = {
    "cron": "*/10 * * * *",
    "zone": "Europe/Berlin",
    "crawl": {"crawlid": "news", "maxdepth": 1},
    "seeds": ["https://www.example.com/"],
}
GUIDE = Path(__file__).parents[3] / "docs" / "recurring.md"


def test_a_dry_run_shows_the_next_times(capsys: pytest.CaptureFixture[str]) -> None:
    """In the zone of the schedule, each ten minutes after the other; nothing is fed."""
    assert run(["schedule", "set", "news", json.dumps(NEWS), "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d0:00 CES?T", line) for line in lines)


def test_a_file_is_as_good(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``next`` takes one, too, and tells the times as numbers."""
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
    """One sentence, and nothing is fed."""
    assert run(["schedule", "set", "news", json.dumps(told), "--dry-run"]) in {1, 2}
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize("text", ["{", "no-such-file.json", "[]"])
def test_what_is_no_object_is_told(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither JSON nor a file."""
    assert run(["schedule", "set", "news", text, "--dry-run"]) == 2
    assert "JSON" in capsys.readouterr().err


def test_every_line_of_the_guide_is_a_schedule(capsys: pytest.CaptureFixture[str]) -> None:
    """What the table says I say is accepted, beside what the example has."""
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
