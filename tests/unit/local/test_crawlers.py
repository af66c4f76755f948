"""The crawlers of a local cluster on paper: their names, their places, what supervisord reads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from supervisor.options import ServerOptions

from crawlstream.boot.local_note import repository
from crawlstream.errors import ConfigError, SetupError
from crawlstream_cli.local.crawlers import (
    BUNDLED,
    check_spiders,
    crawlers_of,
    include_pattern,
    note_crawlers,
    scaled,
)
from crawlstream_cli.local.home import Home
from crawlstream_cli.local.layout import LocalLayout
from crawlstream_cli.local.ports import Ports
from crawlstream_cli.machine.up import _counts


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home whose path has what supervisord's language has signs for."""
    made = Home(tmp_path / "ä home, 100 % [of] 'odd' \"marks\" *")
    made.conf.mkdir(parents=True)
    return made


def _places(spiders: Mapping[str, int], former: Any = ()) -> dict[str, int]:
    return {each.name: each.offset for each in scaled(former, spiders, {})}


def test_every_process_has_a_metrics_port_of_its_own(home: Home) -> None:
    """A row in the order of the spiders' names, behind the monitors and REST, around pipelines."""
    note_crawlers(home, scaled((), {"link": 64, "shop-2": 2, "shop": 2}, {}))
    layout = LocalLayout(home=home, ports=Ports(), given={})
    crawlers = [layout.port_of("crawler", each.name) for each in crawlers_of(home)]
    assert crawlers == [*range(5411, 5431), *range(5439, 5439 + 64 + 2 * 2 - 20)]
    pipelines = [layout.port_of("pipeline", f"pipeline-{n}") for n in range(1, 9)]
    assert pipelines == [*range(5431, 5439)]
    others = {layout.port_of(name, name) for name in ("kafka-monitor", "redis-monitor", "rest")}
    assert others == {5400, 5401, 5402}
    assert layout.port_of("crawler", "crawler-link-65") == 0


def test_those_that_stay_keep_their_places(home: Home) -> None:
    """Scaling touches the spiders that are named only, and takes unused places."""
    note_crawlers(home, scaled((), {"link": 2, "shop": 1}, {}))
    assert _places({"shop": 3}, crawlers_of(home)) == {
        "crawler-link-1": 11,
        "crawler-link-2": 12,
        "crawler-shop-1": 13,
        "crawler-shop-2": 14,
        "crawler-shop-3": 15,
    }
    assert _places({"link": 0, "a": 1}, crawlers_of(home)) == {
        "crawler-shop-1": 13,
        "crawler-a-1": 14,
    }
    elsewhere = {"PYTHONPATH": "/elsewhere"}
    assert scaled(crawlers_of(home), {"shop": 1}, elsewhere) == crawlers_of(home)
    second = scaled(crawlers_of(home), {"shop": 2}, elsewhere)[-1]
    assert second.options["environment"] == 'CRAWLSTREAM_METRICS_OFFSET="14"'


def test_supervisord_reads_what_is_noted(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A spider of one's own has the folder of `up`, its modules and its path, however odd."""
    folder = tmp_path / 'a %d shop\'s "folder"'
    folder.mkdir()
    monkeypatch.chdir(folder)
    path = f"{tmp_path}/100 %s, it's \\x=z:/other"
    given = {"PYTHONPATH": path, "CRAWLSTREAM_SPIDER_MODULES": "a.b,c", "HOME": "/root"}
    note_crawlers(home, scaled((), {"link": 1, "shop.example": 1}, given))
    environment = LocalLayout(home=home, ports=Ports(), given={}).environment()
    assert environment["CRAWLSTREAM_CRAWLERS"] == include_pattern(home)
    link, shop = _read_by_supervisord(environment, home, monkeypatch)
    assert (link.name, link.directory) == ("crawler-link-1", None)
    assert link.environment == {"CRAWLSTREAM_METRICS_OFFSET": "11"}
    assert (shop.name, shop.command) == (
        "crawler-shop.example-1",
        "python -m crawling shop.example",
    )
    assert shop.directory == str(folder)
    assert shop.environment == {
        "CRAWLSTREAM_METRICS_OFFSET": "12",
        "CRAWLSTREAM_SPIDER_MODULES": "a.b,c",
        "PYTHONPATH": path,
    }
    assert shop.stdout_logfile.endswith("logs/crawler-shop.example-1.log")
    assert (shop.priority, shop.stopwaitsecs) == (200, 75)


def _read_by_supervisord(
    environment: Mapping[str, str], home: Home, monkeypatch: pytest.MonkeyPatch
) -> list[Any]:
    """The crawlers' programs, by supervisord's own reading of supervisord.conf."""
    for folder in (home.logs, home.run):
        folder.mkdir()
    monkeypatch.chdir(home.path)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    options = ServerOptions()
    options.realize(["-c", str(repository() / "supervisord.conf")])
    groups = [group for group in options.process_group_configs if group.name.startswith("crawler-")]
    return [program for group in groups for program in group.process_configs]


@pytest.mark.parametrize("odd", ["a\nb", "a ;b", "a #b", 'a"b', "a'"])
def test_what_supervisord_cannot_read_is_refused(odd: str) -> None:
    """A comment sign would cut the value short, a line break begin another option."""
    with pytest.raises(SetupError, match="supervisord cannot read"):
        scaled((), {"shop": 1}, {"PYTHONPATH": odd})


@pytest.mark.parametrize("name", ["a b", "a:b", "-a", "größe", "a/b", "%d", "a]", ""])
def test_names_that_supervisord_does_not_take_are_refused(name: str) -> None:
    """Refuses such names with the remedy, before a crawler is started."""
    with pytest.raises(ConfigError, match="start it with python -m crawling NAME"):
        check_spiders([name], {})


def test_bundled_spiders_are_those_of_the_crawler() -> None:
    """They are not looked for, so their names must be right."""
    folder = repository() / "crawler" / "crawling" / "spiders"
    assert {file.stem for file in folder.glob("*.py")} - {
        "__init__",
        "base",
        "redis_spider",
    } == BUNDLED


def test_numbers_of_crawlers_are_given_by_spider() -> None:
    """The options of the bundled spiders say the same as `--spider` does."""
    asked = ["shop=2", "a=b=1", "link=3"]
    assert _counts(asked, workers=3, wanderers=0) == {
        "link": 3,
        "wandering": 0,
        "shop": 2,
        "a=b": 1,
    }
    assert _counts((), workers=None, wanderers=None) == {}


@pytest.mark.parametrize(
    "text", ["shop", "shop=", "=2", "shop=-1", "shop=65", "shop=two", "shop=²"]
)
def test_what_is_no_number_of_crawlers_is_refused(text: str) -> None:
    """The sentence shows how it is written."""
    with pytest.raises(ConfigError, match="such as --spider link=2"):
        _counts([text])


def test_two_numbers_for_one_spider_are_refused() -> None:
    """Refuses two numbers for one spider."""
    with pytest.raises(
        ConfigError, match="two different numbers of crawlers are given for spider 'link'"
    ):
        _counts(["link=2"], workers=1)
