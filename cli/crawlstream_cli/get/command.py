"""``crawlstream get``: fetch one page and show it."""

from __future__ import annotations

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
from crawlstream_cli.crawl.ending import REMEDIES
from crawlstream_cli.crawl.interruption import until_signal
from crawlstream_cli.get.formats import Format, shown
from crawlstream_cli.get.one_page import GetRefused, GetRequest, NotInTime, record_at, reply_to
from crawlstream_cli.get.recent import recent_record

OTHER_STATUS, FAILED, LATE = 3, 4, 5
"""Exit codes: a page whose status is not 2xx, no page, no reply in time."""
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

    @property
    def chosen(self) -> Format:
        """Return the format; raise ConfigError if there are several."""
        chosen = [each for each in Format if getattr(self, each)]
        if len(chosen) > 1:
            raise ConfigError(f"{' and '.join(f'--{each}' for each in chosen)}: choose one")
        return chosen[0] if chosen else Format.MARKDOWN


@has_options_of(FormatOptions)
def get(
    url: Annotated[str, typer.Argument(metavar="URL", help="Page to fetch.")],
    *,
    render: Annotated[
        bool, typer.Option("--render", help="Render the page in a browser first.")
    ] = False,
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

    Exit code 0: a page with a status of 2xx; 3: with another one, which is printed all the same; 4:
    there is no page (stderr says why); 5: it did not come in time.

    Example: crawlstream get https://example.com/
    """
    how = FormatOptions(**flags).chosen
    wanted = GetRequest.of(_checked(url), wait, render=render)
    age_s = min(seconds_of(max_age), _MOST_AGE_S) if max_age else 0
    raise typer.Exit(until_signal(_get(load_settings(), wanted, how, output, max_age_s=age_s)))


def _checked(url: str) -> str:
    try:
        return seed_url(url)
    except InvalidUrl as error:
        raise ConfigError(f"{in_words(url)}: {error}") from error


async def _get(
    settings: Settings, wanted: GetRequest, how: Format, output: Path | None, *, max_age_s: int
) -> int:
    """Fetch and write a page; return the exit code."""
    recent = await recent_record(settings, wanted, max_age_s) if max_age_s else None
    if recent:
        return await _shown(*recent, how, output)
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
    return await _shown(reply, await record_at(settings, reply.place, reply.id), how, output)


async def _shown(reply: PageReply, record: bytes, how: Format, output: Path | None) -> int:
    _write(await shown(how, decode(record), record), output)
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
