"""The crawlers of a local cluster: their spiders, numbers, and metrics ports.

``conf/crawlers.conf`` in the home has a section for each, after the pattern of ``[crawler]`` in
supervisord.conf, which includes that file. Each is a program of its own, so that one can start or
stop while the others work on. A user's own spider runs in the directory where `up` was called,
because its module or Scrapy project is found there.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from configparser import RawConfigParser
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from crawlstream.errors import ConfigError, SetupError
from crawlstream.model.egress.render import is_lane, spider_of
from crawlstream_cli.local.home import Home, checkout
from crawlstream_cli.local.ports import OF_PIPELINES

BUNDLED = frozenset({"link", "sitemap", "wandering"})
MOST = 64
"""Crawlers of one spider."""

_FIRST_OFFSET = 11
"""Before it are the monitors and REST, in the row of metrics ports; pipelines are in between."""
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
"""Form of a program's name in supervisord."""
_FINDS = ("CRAWLSTREAM_SPIDER_MODULES", "PYTHONPATH", "SCRAPY_SETTINGS_MODULE")
"""The variables by which a spider is found."""
_OFFSET = "CRAWLSTREAM_METRICS_OFFSET"
_RENDERS = "CRAWLSTREAM_RENDER"


@dataclass(frozen=True, slots=True)
class LocalCrawler:
    """A crawler process: its name, ``crawler-SPIDER-NUMBER``, and its options for supervisord."""

    name: str
    offset: int
    """Its place in the row of metrics ports."""
    options: Mapping[str, str]

    @property
    def spider(self) -> str:
        """The name of its spider, or of the lane of those that have a browser."""
        return self.name.removeprefix("crawler-").rpartition("-")[0]

    def another(self, name: str, offset: int) -> LocalCrawler:
        """Return a crawler with the same options, at a place of its own."""
        variables = re.sub(
            rf'{_OFFSET}="\d+"', f'{_OFFSET}="{offset}"', self.options["environment"]
        )
        return LocalCrawler(name, offset, {**self.options, "environment": variables})


def scaled(
    crawlers: Sequence[LocalCrawler], spiders: Mapping[str, int], environment: Mapping[str, str]
) -> Sequence[LocalCrawler]:
    """Return ``crawlers`` with the given number for each named spider; the others stay.

    Existing crawlers keep their places; new ones take the first that are free. New crawlers of a
    spider that has some already find it in the same place.
    """
    wanted = {f"crawler-{name}-{n + 1}": name for name in spiders for n in range(spiders[name])}
    kept = [each for each in crawlers if each.spider not in spiders or each.name in wanted]
    taken = {*OF_PIPELINES, *(each.offset for each in crawlers)}
    free = (offset for offset in count(_FIRST_OFFSET) if offset not in taken)
    like = {each.spider: each for each in crawlers}
    known = {each.name for each in kept}
    new = [
        (like.get(spider) or _first(spider, environment)).another(name, next(free))
        for name, spider in wanted.items()
        if name not in known
    ]
    return [*kept, *new]


def _first(spider: str, environment: Mapping[str, str]) -> LocalCrawler:
    """Return the template for all crawlers of a spider; it has no place yet."""
    return LocalCrawler(f"crawler-{spider}-0", 0, _options(spider, environment))


def _options(spider: str, environment: Mapping[str, str]) -> Mapping[str, str]:
    """The section ``[crawler]`` of supervisord.conf, filled in."""
    options = {
        name: text.replace("{spider}", spider_of(spider)).replace("{offset}", "0")
        for name, text in _parsed(checkout("supervisord.conf")).items("crawler")
    }
    if is_lane(spider):
        options["environment"] += f',{_RENDERS}="true"'
    if spider_of(spider) in BUNDLED:
        return options
    given = [f'{name}="{_quoted(environment[name])}"' for name in _FINDS if environment.get(name)]
    return {
        **options,
        "environment": ",".join([options["environment"], *given]),
        "directory": _literal(str(Path.cwd())),
    }


def _quoted(value: str) -> str:
    """A variable's value, to stand inside double quotes."""
    if '"' in value or value.strip("'") != value:
        raise _unwritable(value, "a quotation mark")
    return _literal(value)


def _literal(text: str) -> str:
    if re.search(r"[\n\r]|\s[;#]", text):
        raise _unwritable(text, "a line break, or a comment sign after a space")
    return text.replace("%", "%%")


def _unwritable(text: str, why: str) -> SetupError:
    return SetupError(
        f"{text!r} contains {why}, which supervisord cannot read: rename the directory or change"
        " the variable"
    )


def check_spiders(spiders: Iterable[str], environment: Mapping[str, str]) -> None:
    """ConfigError unless a crawler that is started here finds each spider, and its browser."""
    named = list(spiders)
    own = [spider_of(name) for name in named if spider_of(name) not in BUNDLED]
    for name in own:
        if not _NAME.fullmatch(name):
            raise ConfigError(
                f"the spider name {name!r} contains characters other than letters, digits, '.',"
                " '_' and '-': `up` cannot run it; start it with python -m crawling NAME"
            )
    renders = any(map(is_lane, named))
    if not own and not renders:
        return
    asked = subprocess.run(
        (sys.executable, "-m", "crawling", "--check", *(own or ("link",))),
        env={**environment, _RENDERS: str(renders).lower()},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if asked.returncode:
        said = asked.stderr.strip() or f"the check of spiders ended with {asked.returncode}"
        raise ConfigError(said.splitlines()[-1].removeprefix("crawler: "))


def crawlers_of(home: Home) -> Sequence[LocalCrawler]:
    """The crawlers of the latest `up` of a home; none where there was none."""
    sections = _parsed(_file(home))
    return [
        LocalCrawler(
            name.removeprefix("program:"), _offset_in(options["environment"]), dict(options)
        )
        for name, options in sections.items()
        if name.startswith("program:")
    ]


def _offset_in(environment: str) -> int:
    found = re.search(rf'{_OFFSET}="(\d+)"', environment)
    return int(found[1]) if found else 0


def note_crawlers(home: Home, crawlers: Iterable[LocalCrawler]) -> None:
    """Note which crawlers supervisord is to run in a home."""
    sections = RawConfigParser(default_section="", delimiters=("=",))
    for crawler in crawlers:
        sections[f"program:{crawler.name}"] = crawler.options
    new = _file(home).with_suffix(".new")
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:  # noqa: PTH123  with its mode from the start
        sections.write(file)
    new.replace(_file(home))


def note_targets(home: Home, ports: Iterable[int]) -> None:
    """Write the crawlers' metrics ports for Prometheus (``file_sd_configs``), if it is used."""
    named = ", ".join(f'"127.0.0.1:{port}"' for port in ports)
    new = targets_file(home).with_suffix(".new")
    new.write_text(f"- targets: [{named}]\n")
    new.replace(targets_file(home))


def targets_file(home: Home) -> Path:
    """Return where Prometheus reads of the crawlers that run."""
    return home.run / "crawlers.yml"


def include_pattern(home: Home) -> str:
    """Return where they are, as ``[include]`` of supervisord.conf has it: it splits at spaces."""
    return re.sub(r"[\s*?\[]", "?", str(_file(home)))


def _parsed(file: Path) -> RawConfigParser:
    sections = RawConfigParser(
        default_section="", delimiters=("=",), inline_comment_prefixes=(), strict=False
    )
    sections.read(file)
    return sections


def _file(home: Home) -> Path:
    return home.conf / "crawlers.conf"
