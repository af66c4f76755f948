"""The pictures of the documentation: a terminal shows what was written, files are small."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from pictures.__main__ import IMAGES, MAX_BYTES, shots
from pictures.svg import render
from pictures.terminal import PLAIN, Moment, Picture, Recording, Run, Screen, Style

ROOT = IMAGES.parents[1]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
SVG = "{http://www.w3.org/2000/svg}"


def shown(*written: str, columns: int = 20, rows: int = 4) -> list[str]:
    """The rows of a terminal after all of this was written."""
    screen = Screen(columns, rows)
    for text in written:
        screen.write(text)
    return plain(screen.picture())


def plain(picture: Picture) -> list[str]:
    """A picture without its styles."""
    rows = []
    for row in picture:
        text = ""
        for run in row:
            text = text.ljust(run.column) + run.text
        rows.append(text.rstrip())
    return rows


@pytest.mark.parametrize(
    ("written", "rows"),
    [
        (["one\r\ntwo"], ["one", "two"]),
        (["12 %\r99 %"], ["99 %"]),
        (["long line\r\x1b[2Kshort"], ["short"]),
        (["long line\r\x1b[4Cer\x1b[K"], ["longer"]),
        (["a\r\nb\x1b[1A\r\x1b[2Kc"], ["c", "b"]),
        (["a\r\nb\r\nc\x1b[2A\r\x1b[Jd"], ["d"]),
        (["a\r\nb\r\nc\r\nd\r\ne"], ["b", "c", "d", "e"]),
        (["abcdefghijklmnopqrstuvwxyz"], ["abcdefghijklmnopqrst", "uvwxyz"]),
        (["\x1b[?25lhid\x1b[?25hden"], ["hidden"]),
        (["cut \x1b", "[1", "mhere"], ["cut here"]),
        (["\x1b]8;;http://a/\x1b\\link\x1b]8;;\x1b\\"], ["link"]),
    ],
)
def test_a_terminal_obeys_what_commands_write(written: list[str], rows: list[str]) -> None:
    """Lines are rewritten, erased and scrolled; sequences may come in pieces."""
    assert shown(*written) == rows


@pytest.mark.parametrize(
    ("codes", "style"),
    [
        ("31", Style(1)),
        ("92", Style(10)),
        ("1;2", Style(bold=True, dim=True)),
        ("1;22", PLAIN),
        ("38;5;200", Style(200)),
        ("38;2;255;0;0", Style(196)),
        ("48;5;3;34", Style(4)),
        ("31;39", PLAIN),
        ("1;31;0", PLAIN),
    ],
)
def test_colours_are_those_of_256(codes: str, style: Style) -> None:
    """Basic, bright, indexed and true colours; backgrounds are left out."""
    screen = Screen(20, 4)
    screen.write(f"\x1b[{codes}mx")
    assert screen.picture() == ((Run(0, "x", style),),)


def test_a_command_is_recorded_as_it_is_seen(tmp_path: Path) -> None:
    """A program on a terminal of its own: what it replaces is seen first, long waits are cut."""
    program = (
        "import shutil, sys, time; print(sys.stdout.isatty(), shutil.get_terminal_size());"
        "print('1 page', end='', flush=True); time.sleep(3);"
        "print('\\r2 pages'); sys.exit(3)"
    )
    recording = Recording(columns=60, rows=10, longest_s=0.3)
    recording.type_command("./crawlstream crawl")
    status = recording.run([sys.executable, "-c", program], environment=os.environ, folder=tmp_path)
    assert status == 3
    seen = [plain(moment.picture) for moment in recording.moments]
    assert ["$ ./cra"] in seen
    told = "True os.terminal_size(columns=60, lines=10)"
    assert ["$ ./crawlstream crawl", told, "1 page"] in seen
    assert [line for line in seen[-1] if line] == ["$ ./crawlstream crawl", told, "2 pages"]
    assert max(moment.seconds for moment in recording.moments) <= 0.6


def test_a_recording_may_play_faster_than_it_was(tmp_path: Path) -> None:
    """Six seconds of a crawl in one; how a command is typed is not hurried."""
    program = "import time; [(print(n, flush=True), time.sleep(0.4)) for n in range(5)]"
    recording = Recording(columns=40, rows=8, shortest_s=0.2, speed=4)
    recording.type_command("crawl")
    typed = sum(moment.seconds for moment in recording.moments)
    recording.run([sys.executable, "-c", program], environment=os.environ, folder=tmp_path)
    played = sum(moment.seconds for moment in recording.moments[:-1]) - typed
    assert typed >= 0.6
    assert played < 2.0


def test_a_recording_becomes_a_file_that_plays_by_itself() -> None:
    """Well-formed, with every moment, each row once; nothing is loaded and no script runs."""
    first, second = (Run(0, "<b> & c", Style(2, bold=True)),), (Run(3, "end", Style(dim=True)),)
    recording = Recording(columns=20, rows=3)
    pictures: list[Picture] = [(first,), (first, second), (first, (), second)]
    recording.moments = [Moment(picture, 1) for picture in pictures]
    text = render(recording, title="A & B")
    tree = ET.fromstring(text)  # noqa: S314  made above
    assert [node.text for node in tree.iter(f"{SVG}tspan")] == ["<b> & c", "end"]
    assert len([*tree.iter(f"{SVG}use")]) == 5
    assert text.count("translateX(") == 3 + 1
    assert not re.search(r"<script|url\(|href=\"(?!#)|@import", text)


def test_pictures_are_there_and_small() -> None:
    """Each is shown somewhere, in light and dark, and takes no longer to load than it is worth."""
    told = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    used = set(re.findall(r"images/([\w.-]+)", told))
    made = {f"{shot.name}-{light}.webp" for shot in shots("") for light in ("light", "dark")}
    made |= {"terminal.svg", "first-crawl.svg"}
    assert {path.name for path in IMAGES.iterdir()} == used == made
    assert not [path for path in IMAGES.iterdir() if path.stat().st_size > MAX_BYTES]
