"""A spider of the user's own in a cluster of one machine: started, scaled and ended by `up`."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from crawlstream.boot.variables import environment_without_settings
from crawlstream_chaos.processes import RunningServer
from crawlstream_chaos.scripted_site import CrawlerSite, page, serving
from crawlstream_cli.local.ports import Ports
from support.forks.program import run

_PROJECT = {
    "scrapy.cfg": "[settings]\ndefault = shop.settings\n",
    "shop/__init__.py": "",
    "shop/settings.py": """
BOT_NAME = "shop"
SPIDER_MODULES = ["shop.spiders"]
ITEM_PIPELINES = {"shop.pipelines.Ledger": 300}
""",
    "shop/pipelines.py": """
import json

class Ledger:
    def process_item(self, item):
        if isinstance(item, dict):
            with open("prices.jsonl", "a") as file:
                file.write(json.dumps(item))
        return item
""",
    "shop/spiders.py": """
from crawling import ClusterSpider

class Products(ClusterSpider):
    name = "products"

    def parse(self, response):
        yield {"url": response.url}
        yield self.result(response)
""",
}
_MODULE = """
from crawling import ClusterSpider

class News(ClusterSpider):
    name = "news"

    def parse(self, response):
        yield self.result(response, attrs={"by": "news"})

class Broken(News):
    name = "broken"

    def __init__(self, *arguments, **named):
        raise RuntimeError("the licence has expired")
"""


@pytest.fixture
def site() -> Iterator[CrawlerSite]:
    """Two pages."""
    with serving({"/shop": page(), "/news": page()}) as site:
        yield site


@dataclass
class _Person:
    """A user with a terminal in a folder, and a Scrapy project there."""

    folder: Path
    environment: Mapping[str, str]

    def types(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run `crawlstream …` to its end."""
        return run(
            "crawlstream_cli",
            *words,
            env={**self.environment, **variables},
            folder=self.folder,
            timeout_s=240,
            safe_path=True,
        )

    def sees(self) -> dict[str, Mapping[str, Any]]:
        """The cluster's crawlers, by their names, as `status` shows them."""
        told = json.loads(self.types("status", "--json").stdout)
        return {each["name"]: each for each in told["processes"] if each["kind"] == "crawler"}


@pytest.fixture
def person(
    tmp_path: Path, kafka_server: RunningServer, zookeeper_server: RunningServer, fresh_name: str
) -> Iterator[_Person]:
    """Their cluster ends with the test."""
    folder = tmp_path / "my shop"
    for name, text in _PROJECT.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    made = _Person(
        folder,
        {
            **environment_without_settings(os.environ),
            **Ports.free().variables(),
            "CRAWLSTREAM_HOME": str(tmp_path / "home"),
            "CRAWLSTREAM_ALLOW_NETWORKS": "127.0.0.0/8",
            "CRAWLSTREAM_FINISH_GRACE": "1",
            "KAFKA_HOSTS": f"127.0.0.1:{kafka_server.port}",
            "KAFKA_TOPIC_PREFIX": fresh_name,
            "ZOOKEEPER_ASSIGN_PATH": f"/{fresh_name}/",
            "ZOOKEEPER_HOSTS": f"127.0.0.1:{zookeeper_server.port}",
        },
    )
    yield made
    made.types("down")


def test_a_spider_of_ones_own_is_started_scaled_and_ended_by_up(
    person: _Person, site: CrawlerSite, tmp_path: Path
) -> None:
    """Starts, scales and ends a spider of a project and of a module; others do not notice."""
    (person.folder / "extra.py").touch()
    everywhere = {"PYTHONPATH": ".", "CRAWLSTREAM_SPIDER_MODULES": "extra"}
    nothing = person.types("up", "-d", "--pipelines", "2")
    assert (nothing.returncode, "there is no pipelines.toml" in nothing.stderr) == (1, True)
    # A file of pipelines in the folder is left alone: no process ends by its contents.
    (person.folder / "pipelines.toml").write_text("[pipeline.none]")
    words: tuple[str, ...] = ("up", "-d", "--spider", "products=1", "--pipelines", "0")
    up = person.types(*words, **everywhere)
    assert up.returncode == 0, up.stderr
    before = person.sees()
    assert list(before) == ["crawler-link-1", "crawler-products-1"]
    _crawled_by("products", site.url("/shop"), person)
    assert json.loads((person.folder / "prices.jsonl").read_text()) == {"url": site.url("/shop")}

    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "news.py").write_text(_MODULE)
    elsewhere = _Person(modules, person.environment)
    words = ("up", "--spider", "news=1", "--spider", "products=2", "--workers", "0")
    variables = {"PYTHONPATH": ".", "CRAWLSTREAM_SPIDER_MODULES": "news"}
    scaled = elsewhere.types(*words, **variables)
    assert scaled.returncode == 0, scaled.stderr
    after = person.sees()
    assert list(after) == ["crawler-news-1", "crawler-products-1", "crawler-products-2"]
    assert after["crawler-products-1"]["pid"] == before["crawler-products-1"]["pid"]
    assert {each["condition"] for each in after.values()} == {"ready"}
    assert not psutil.pid_exists(before["crawler-link-1"]["pid"])
    _crawled_by("news", site.url("/news"), person)
    _check_places(person, {"products": 12, "news": 13})

    refused = elsewhere.types("up", "--spider", "broken=1", "--spider", "news=0", **variables)
    assert refused.returncode == 1
    assert "crawler-broken-1 does not start" in refused.stderr
    late = elsewhere.types("up", "--spider", "news=1", "--pipelines", "2")
    assert (late.returncode, "--pipelines takes effect when" in late.stderr) == (1, True)
    assert {n: each["pid"] for n, each in person.sees().items()} == {
        name: each["pid"] for name, each in after.items()
    }

    log = person.types("logs", "crawler-news-1", "--json")
    assert '"process":"crawler-news-1"' in log.stdout
    assert person.types("down").returncode == 0
    assert not any(psutil.pid_exists(each["pid"]) for each in after.values())


def _crawled_by(spider: str, url: str, person: _Person) -> None:
    done = person.types("crawl", url, "--spider", spider, "-o", "-")
    assert done.returncode == 0, done.stderr
    (record,) = [json.loads(line) for line in done.stdout.splitlines()]
    assert (record["spiderid"], record["url"], record["status_code"]) == (spider, url, 200)


def _check_places(person: _Person, offsets: Mapping[str, int]) -> None:
    """Each spider's first crawler has its metrics where Prometheus looks for them."""
    told = (Path(person.environment["CRAWLSTREAM_HOME"]) / "run" / "crawlers.yml").read_text()
    assert told.count("127.0.0.1:") == 3
    for spider, offset in offsets.items():
        port = int(person.environment["CRAWLSTREAM_METRICS_PORT"]) + offset
        assert f'"127.0.0.1:{port}"' in told
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as page:
            assert f'spider="{spider}"' in page.read().decode()


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("shop=1", "unknown spider 'shop'; known spiders: link, products, sitemap, wandering."),
        ("plain=1", "Plain is not a cluster spider: derive it from crawling.ClusterSpider"),
        ("products", "expected the name of a spider, '=' and a number from 0 to 64"),
    ],
)
def test_a_spider_that_cannot_be_run_is_refused_before_anything_starts(
    person: _Person, asked: str, said: str
) -> None:
    """A single sentence names those that can; exit code 2, and nothing was begun."""
    plain = 'from scrapy import Spider\n\nclass Plain(Spider):\n    name = "plain"\n'
    (person.folder / "shop" / "plain.py").write_text(plain)
    settings = _PROJECT["shop/settings.py"].replace("spiders", 'spiders", "shop.plain')
    (person.folder / "shop" / "settings.py").write_text(settings)
    up = person.types("up", "-d", "--spider", asked)
    assert up.returncode == 2
    *notices, refusal = up.stderr.splitlines()
    spider, number, _ = asked.partition("=")
    assert notices == ([f"spider {spider} being checked"] if number else [])
    assert said in refusal
    assert not Path(person.environment["CRAWLSTREAM_HOME"]).exists()


def test_a_defect_in_ones_own_spider_is_named(person: _Person) -> None:
    """Names file and line of a bug in a user's spider, instead of a trace."""
    (person.folder / "shop" / "spiders.py").write_text("import nowhere\n")
    up = person.types("up", "-d", "--spider", "products=1")
    assert up.returncode == 2
    assert "No module named 'nowhere'" in up.stderr
    assert "shop/spiders.py, line 1)" in up.stderr
