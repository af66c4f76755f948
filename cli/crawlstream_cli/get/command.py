"""``crawlstream get``: fetch one page and show it."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from crawlstream.boot.settings import Settings, load_settings
from crawlstream.called import COMMAND
from crawlstream.errors import ConfigError, CrawlstreamError, InvalidUrl
from crawlstream.model.event import PageReply
from crawlstream.model.url import seed_url
from crawlstream.wire.delivered import decode
from crawlstream_cli.common.console import print_line, stderr_console
from crawlstream_cli.common.option_sets import has_options_of
from crawlstream_cli.common.times import seconds_of
from crawlstream_cli.common.words import in_words
from crawlstream_cli.crawl.browser_options import Actions, wish_of
from crawlstream_cli.crawl.ending import REMEDIES
from crawlstream_cli.crawl.interruption import until_signal
from crawlstream_cli.get.effects import unfinished
from crawlstream_cli.get.formats import Format, shown
from crawlstream_cli.get.one_page import GetRefused, GetRequest, NotInTime, record_at, reply_to
from crawlstream_cli.get.picture import NoScreenshot, check_picture, write_picture
from crawlstream_cli.get.recent import recent_record

OTHER_STATUS, FAILED, LATE = 3, 4, 5
"""Exit codes: a page whose status is not 2xx, no page or no screenshot, no reply in time."""
_OK = range(200, 300)
_MOST_AGE_S = 3600
"""Seconds for which earlier pages are found, as by REST."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatOptions:
    """Options that name a format; one at most."""

    markdown: Annotated[
        bool, typer.Option("--markdown", help="Main content as Markdown (default).")
    ] = False
    text: Annotated[bool, typer.Option("--text", help="Main content as plain text.")] = False
    html: Annotated[bool, typer.Option("--html", help="Body as the site sent it.")] = False
    links: Annotated[bool, typer.Option("--links", help="URLs of its links, one in a line.")] = (
        False
    )
    json: Annotated[
        bool, typer.Option("--json", help="Record of the result topic, as a line of JSON.")
    ] = False

    def chosen(self, *, usual: Format | None) -> Format | None:
        """Return the format, or the usual one; raise ConfigError if there are several."""
        chosen = [each for each in Format if getattr(self, each)]
        if len(chosen) > 1:
            raise ConfigError(f"{' and '.join(f'--{each}' for each in chosen)}: choose one")
        return chosen[0] if chosen else usual


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    """Parts of a page that are written, and where to."""

    how: Format | None
    """None: nothing but the picture."""
    output: Path | None
    picture: Path | None


@has_options_of(FormatOptions)
def get(
    url: Annotated[str, typer.Argument(metavar="URL", help="Page to fetch.")],
    *,
    render: Annotated[
        bool, typer.Option("--render", help="Render the page in a browser first.")
    ] = False,
    screenshot: Annotated[
        Path | None,
        typer.Option(metavar="FILE.png", help="Write a screenshot of the page, from a browser."),
    ] = None,
    screenshot_of: Annotated[
        str | None,
        typer.Option(
            metavar="PART", help="Part in it: viewport (default), full, or element:CSS-SELECTOR."
        ),
    ] = None,
    actions: Actions = None,
    wait: Annotated[int, typer.Option(min=1, max=3600, help="Seconds to wait for the page.")] = 60,
    max_age: Annotated[
        str | None,
        typer.Option(help="Print a page that `get` has fetched before, if it is not older: 10min."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write to; it is replaced.")
    ] = None,
    **flags: Any,
) -> None:
    """Fetch one page through the cluster and print it.

    It is fetched like any page: within the limits of its site, robots.txt obeyed, before pages of
    lower priority. Its result is on the result topic, too.

    With --screenshot, the page is printed only if a format or --output is given.

    Exit code 0: a page with a status of 2xx; 3: with another one, which is printed all the same; 4:
    there is no page, or no screenshot (stderr says why); 5: it did not come in time. If an action
    cannot be done, the page is printed as it is then, and stderr says why.

    Example: crawlstream get https://example.com/
    """
    part = check_picture(screenshot, screenshot_of)
    if max_age and (part or actions):
        option = "--screenshot takes a new picture" if part else "--actions need a new page"
        raise ConfigError(f"{option}: leave out --max-age")
    is_quiet = part is not None and output is None
    how = FormatOptions(**flags).chosen(usual=None if is_quiet else Format.MARKDOWN)
    wish = wish_of(render=render, screenshot=part, actions=actions)
    wanted = GetRequest.of(_checked(url), wait, wish)
    age_s = min(seconds_of(max_age), _MOST_AGE_S) if max_age else 0
    to = _Shown(how=how, output=output, picture=screenshot)
    raise typer.Exit(until_signal(_get(load_settings(), wanted, to, max_age_s=age_s)))


def _checked(url: str) -> str:
    try:
        return seed_url(url)
    except InvalidUrl as error:
        raise ConfigError(f"{in_words(url)}: {error}") from error


async def _get(settings: Settings, wanted: GetRequest, to: _Shown, *, max_age_s: int) -> int:
    """Fetch and write a page; return the exit code."""
    recent = await recent_record(settings, wanted, max_age_s) if max_age_s else None
    if recent:
        return await _shown(settings, *recent, to)
    try:
        reply = await reply_to(settings, wanted)
    except NotInTime as late:
        why = f" {late}." if str(late) else ""
        return _say(
            f"no page within {wanted.wait_s} s.{why} It may still come:"
            f" `{COMMAND} info {wanted.id}`",
            LATE,
        )
    except GetRefused as refused:
        return _say(f"rejected: {refused}", FAILED)
    if reply.place is None or reply.id is None:
        return _say(_why_not(reply), FAILED)
    return await _shown(settings, reply, await record_at(settings, reply.place, reply.id), to)


async def _shown(settings: Settings, reply: PageReply, record: bytes, to: _Shown) -> int:
    page = decode(record)
    if sentence := unfinished(page):
        _say(sentence, 0)
    if to.how is not None:
        _write(await shown(to.how, page, record), to.output)
    if to.picture is not None:
        try:
            _say(await asyncio.to_thread(write_picture, settings, page, to.picture), 0)
        except NoScreenshot as error:
            return _say(f"{reply.url}: {error}", FAILED)
    if reply.status_code in _OK:
        return 0
    return _say(f"{reply.url}: status {reply.status_code}", OTHER_STATUS)


def _why_not(reply: PageReply) -> str:
    """Return why there is no page, with what a person can do."""
    advice = REMEDIES.get(reply.reason)
    told = f"{reply.url or 'the page'}: {reply.reason}"
    return f"{told}: {advice}" if advice else told


def _say(sentence: str, code: int) -> int:
    stderr_console().print(sentence, soft_wrap=True, highlight=False, markup=False)
    return code


def _write(data: bytes, output: Path | None) -> None:
    """Write to a file or standard output; a terminal gets printable text."""
    if output is not None:
        try:
            output.write_bytes(data)
        except OSError as error:
            raise CrawlstreamError(f"cannot write to {output}: {error.strerror}") from error
    elif sys.stdout.isatty():
        print_line(data.decode("utf-8", "replace"))
    else:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
