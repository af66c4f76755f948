"""robots.txt: the meaning of an answer for the cluster, and for how long."""

from __future__ import annotations

from typing import Any

import pytest
from scrapy.http import Response

from crawling.response.codings import INCOMPLETE
from crawling.robots.cache import MOST_CHARACTERS, MOST_FILES, KnownFiles
from crawling.robots.lines import MOST_RULES
from crawling.robots.robots_book import (
    EVERYTHING_FORBIDDEN,
    RobotsNote,
    note_instead,
    note_of,
    place_of,
    rules_note,
)
from crawling.robots.rules import RobotsRules, rules_in

ORIGIN = "http://a.com:8080"
DAY_S = 24 * 3600
NOTHING = RobotsNote(None, 0)


def answer(status: int, body: bytes = b"", **headers: str) -> Response:
    """Answer of the site."""
    named: Any = headers
    return Response(f"{ORIGIN}/robots.txt", status=status, headers=named, body=body)


def allows(note: RobotsNote, path: str) -> bool:
    """Return whether every client may fetch a path."""
    rules = rules_in(note.text())
    return rules is None or rules.allow(ORIGIN + path, "anybody")


def test_a_file_is_kept_for_a_day() -> None:
    """Its rules come back as they were written."""
    note = note_of(answer(200, b"\xef\xbb\xbfUser-agent: *\nDisallow: /p\n"), NOTHING)
    assert (note.word, note.left_s) == (b"rules", DAY_S)
    assert allows(note, "/q")
    assert not allows(note, "/p")


def test_only_the_beginning_of_a_large_file_counts() -> None:
    """500 KiB, as the standard has it at least."""
    late = b"User-agent: *\n" + b"#" * (500 * 1024) + b"\nDisallow: /"
    assert allows(note_of(answer(200, late), NOTHING), "/x")
    assert not allows(EVERYTHING_FORBIDDEN, "/x")


@pytest.mark.parametrize(
    ("rule", "path"),
    [
        ("/search?sort=", "/search?sort=1&q=a"),
        ("/*?print$", "/doc?print"),
        ("/index.php?/admin", "/index.php?/admin/x"),
        ("/a|b", "/a%7Cb"),
        ("/a%7Cb", "/a|b"),
        ("/%7eu", "/~u"),
        ("/\xe9", "/%E9"),
        ("/x[1]", "/x[1]"),
        ("/p;x", "/p;x=1?y"),
    ],
)
def test_a_rule_is_about_what_is_asked_for(rule: str, path: str) -> None:
    """Compares octets, escaped or not (RFC 9309, 2.2.2), in the order in which they are sent."""
    note = rules_note(f"User-agent: *\nDisallow: {rule}\n".encode("latin-1"))
    assert not allows(note, path)


@pytest.mark.parametrize("status", [304, 400, 401, 403, 404, 410, 302])
def test_no_file_means_no_rules(status: int) -> None:
    """Allows everything without a file, or if its redirect leads nowhere."""
    note = note_of(answer(status), NOTHING)
    assert (note.word, note.left_s) == (b"open", DAY_S)
    assert allows(note, "/x")


def test_a_host_that_refuses_is_asked_ever_later() -> None:
    """5, 10, 20 s, up to a quarter of an hour; an answer in between restarts it."""
    note, pauses = NOTHING, []
    for _ in range(12):
        note = note_of(answer(503), note)
        pauses.append(note.rests_s)
    assert pauses[:4] == [5, 10, 20, 40]
    assert pauses[-3:] == [900, 900, 900]
    assert note.refusals == 12
    assert note_of(answer(429), RobotsNote(b"open", 1)).refusals == 1


def test_a_file_that_breaks_off_forbids_until_it_is_whole() -> None:
    """The rule that is missing might be about the page that waits."""
    cut = answer(200, b"User-agent: *\nDis").replace(flags=[INCOMPLETE])
    assert note_of(cut, NOTHING).refusals == 1
    assert note_of(cut.replace(status=404), NOTHING).word == b"open"


def test_a_file_that_has_moved_is_followed_wherever_it_is() -> None:
    """Five hops; the grant of this domain does not pay for another's."""
    assert place_of(ORIGIN, NOTHING) == f"{ORIGIN}/robots.txt"
    note = NOTHING
    for hop in range(1, 6):
        note = note_of(answer(301, Location=f"//www.a.com/r{hop}"), note)
        assert (note.word, place_of(ORIGIN, note)) == (b"moved", f"http://www.a.com/r{hop}")
    assert note_of(answer(301, Location="/r6"), note).word == b"open"
    assert note_of(answer(301, Location="http://b.com/r"), NOTHING).raw == b"moved 1 http://b.com/r"
    assert note_of(answer(301, Location="http://["), NOTHING).word == b"open"


def test_what_cannot_be_read_allows() -> None:
    """A note that Redis has damaged costs no page."""
    assert allows(RobotsNote(b"rules not zlib", 1), "/x")
    assert allows(rules_note(b"\x00" * 1000), "/x")


def test_what_a_middleware_asks_for_instead_is_a_redirect_or_a_later() -> None:
    """Serving the file again means not now; no client is allowed anything by that."""
    asked = f"{ORIGIN}/robots.txt"
    assert note_instead(asked, asked, NOTHING).word == b"later"
    assert note_instead("http://www.a.com/r", asked, NOTHING).word == b"moved"
    assert note_instead("http://b.com/r", asked, NOTHING).word == b"moved"


def test_a_process_remembers_what_it_can_bear() -> None:
    """Keeps files within number and size; unused ones leave first, replaced ones at once."""
    known = KnownFiles[RobotsRules]()
    for number in range(MOST_FILES):
        known.put(str(number), None, 60)
    assert known["0"] is None
    known.put("last", None, 60)
    assert "0" in known
    assert "1" not in known
    large = rules_in(b"User-agent: *\n" + b"Disallow: /x\n" * (MOST_CHARACTERS // 250))
    for number in range(20):
        known.put(f"large-{number}", large, 60)
    assert [f"large-{number}" in known for number in (0, 1, 19)] == [False, True, True]
    assert "last" not in known
    known.put("large-19", None, 60)
    known.put("large-20", large, 60)
    assert "large-1" in known, "what was replaced takes no room"


def group(agents: int, rules: int) -> bytes:
    """A file of one group."""
    names = "".join(f"User-agent: {number}\n" for number in range(agents))
    return (names + "".join(f"Disallow: /{number}\n" for number in range(rules))).encode()


def test_a_short_file_that_stands_for_many_rules_takes_the_room_of_those() -> None:
    """Each agent has all the rules of its group."""
    short, usual = rules_in(group(100, 500)), rules_in(group(1, 500))
    assert short is not None
    assert usual is not None
    assert short.size > 10 * len(group(100, 500))
    assert usual.size < 2 * len(group(1, 500))


@pytest.mark.parametrize(
    "text", [group(1000, 30_000), b"user-agent: *\nallow: /*" + b"*a" * 200_000]
)
def test_a_file_with_more_rules_than_can_be_borne_forbids_everything(text: bytes) -> None:
    """The first would be 30 million rules, of several gigabytes."""
    rules = rules_in(text)
    assert rules is not None
    assert not rules.allow(f"{ORIGIN}/x", "anybody")
    assert rules.is_light


def test_as_many_rules_as_the_largest_file_can_hold_for_everybody_are_borne() -> None:
    """Reads as many rules as the largest file can hold, and hundreds of groups or agents."""
    everybody = (b"User-agent: *\n" + b"Allow:/\n" * 70_000)[: 500 * 1024]
    groups = b"\n".join(group(1, 30).replace(b"agent: 0", b"agent: %d" % n) for n in range(900))
    for text in (everybody, groups, group(800, 50)):
        rules = rules_in(text)
        assert rules is not None
        assert 1 < rules.weight < MOST_RULES


def test_what_a_process_remembers_grows_old() -> None:
    """Forgets a file with the note that it comes from."""
    now = [0.0]
    known = KnownFiles[RobotsRules](lambda: now[0])
    known.put(ORIGIN, rules_in(b"User-agent: *\nDisallow: /"), DAY_S)
    assert ORIGIN in known
    now[0] = DAY_S + 1
    assert ORIGIN not in known
