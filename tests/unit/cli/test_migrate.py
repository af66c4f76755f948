"""``crawlstream migrate check``: its report on a project for Scrapy Cluster, line by line."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

import pytest

from crawling import ClusterSpider
from crawling.testing import crawl_page
from crawlstream_cli.app import run
from crawlstream_cli.migrate.finding import Remedy
from crawlstream_cli.migrate.project import MAX_FILE_BYTES, check_project
from support.documented import DOCS
from support.old_project import FILES, migrated_spiders, write_old_project

LIST = "<a class=product href=/1>Anchor</a>"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """The sample project."""
    return write_old_project(tmp_path / "shopcrawl")


def told(folder: Path) -> Mapping[tuple[str, str], tuple[str, str, int]]:
    """Verdict, advice and line of each finding, by the name of its file and its own."""
    return {
        (Path(one.file).name, one.name): (one.verdict, one.advice, one.line)
        for one in check_project(folder).findings
    }


@pytest.mark.parametrize(
    ("file", "name", "verdict", "says"),
    [
        ("settings.py", "ROBOTSTXT_OBEY", "change", "obeyed by default"),
        ("settings.py", "REDIS_PORT", "works", "default"),
        ("settings.py", "REDIS_HOST", "set", "REDIS_HOST=redis.internal"),
        ("settings.py", "QUEUE_HITS", "set", "throttle set"),
        ("settings.py", "SCHEDULER_QUEUE_REFRESH", "unused", "polled"),
        ("settings.py", "SCHEUDLER_ITEM_RETRIES", "unused", "RETRY_TIMES"),
        ("settings.py", "SCHEDULER_TYPE_ENABLED", "change", "off by default"),
        ("settings.py", "SC_LOG_LEVEL", "rename", "LOG_LEVEL=DEBUG"),
        ("settings.py", "DOWNLOAD_DELAY", "change", "throttle set default --hits 2 --window 5"),
        ("settings.py", "SHOP_CURRENCY", "works", "stays"),
        ("settings.py", "KAFKA_TOPIC_PREFIX", "set", "staging"),
        ("settings.py", "crawling.pipelines.KafkaPipeline", "unused", "own"),
        ("settings.py", "shopcrawl.pipelines.Warehouse", "works", "ADDONS"),
        ("settings.py", "crawling.shop_pipeline.PricePipeline", "change", "ITEM_PIPELINES"),
        ("localsettings.py", "KAFKA_HOSTS", "set", "k1:9092,k2:9092"),
        ("localsettings.py", "REDIS_HOST", "change", "crawler/crawling/settings.py:5"),
        ("localsettings.py", "plugins.scraper_handler.ScraperHandler", "unused", "built in"),
        ("localsettings.py", "plugins.stats_handler.StatsHandler", "change", "switched off"),
        ("localsettings.py", "plugins.price_handler.PriceHandler", "change", "entry point"),
        ("localsettings.py", "PRICE_LIMIT", "change", "environment"),
        ("settings.py", "QUEUE_WINDOW", "unused", "localsettings.py:1 says otherwise"),
        ("localsettings.py", "QUEUE_WINDOW", "set", "QUEUE_WINDOW=90"),
        ("localsettings.py", "SCHEDULER_IP_ENABLED", "works", "default"),
        ("localsettings.py", "crawling.shop_pipeline.VatPipeline", "change", "ITEM_PIPELINES"),
        ("localsettings.py", "crawling.proxy.RandomProxy", "change", "DOWNLOADER_MIDDLEWARES"),
        ("pipelines.py", "pipelines.py", "unused", "part of Scrapy Cluster"),
        ("items.py", "RawResponseItem", "unused", "part of Scrapy Cluster"),
        ("items.py", "PriceItem", "change", "another name"),
        ("items.py", "PriceItem(Item)", "change", "not sent to Kafka"),
        ("shop_pipeline.py", "crawling.items", "change", "your own"),
        ("shop_pipeline.py", "VatPipeline", "change", "another name"),
        ("shop_pipeline.py", "from_settings", "change", "from_crawler"),
        ("shop_pipeline.py", "_logger", "change", "spider.logger"),
        ("shop_pipeline.py", "curdepth", "change", "maxdepth"),
        ("shop_pipeline.py", "priority", "change", "request itself"),
        ("report.py", "redis", "change", "a Redis of your own"),
        ("shop_spider.py", "ShopSpider(RedisSpider)", "works", "parse stays"),
        ("shop_spider.py", "ShopSpider", "change", "package of another name"),
        ("shop_spider.py", "RawResponseItem", "change", "self.result"),
        ("shop_spider.py", "reconstruct_headers", "change", "remove"),
        ("shop_spider.py", "_logger", "change", "self.logger"),
        ("shop_spider.py", "meta=response.meta", "unused", "may stay"),
        ("price_handler.py", "PriceHandler(BaseHandler)", "change", "Handler"),
        ("price_handler.py", "schema", "change", "Schema"),
        ("price_handler.py", "redis_conn", "change", "elsewhere"),
        ("price_monitor.py", "PriceMonitor(KafkaBaseMonitor)", "change", "Action"),
        ("price_monitor.py", "regex", "change", "name"),
        ("price_monitor.py", "handle", "change", "answer"),
        ("scraper_schema.json", "tenant", "change", "attrs"),
        ("report.py", "link:*:queue", "change", "/v2/state"),
        ("report.py", "stats:crawler:*:200:900", "change", "stats request"),
        ("supervisord.conf", "kafka_monitor.py run", "rename", "kafka-monitor run"),
        ("supervisord.conf", "KAFKA_GROUP", "works", "under this name"),
        ("supervisord.conf", "STATS_CYCLE", "unused", "counted"),
        ("docker-compose.yml", "SCHEDULER_PERSIST", "unused", "kept"),
        ("requirements.txt", "scutils==1.2.0", "change", "remove"),
        ("old_report.py", "old_report.py", "change", "not Python 3"),
        ("redis_retry_middleware.py", "redis_retry_middleware.py", "unused", "replaced"),
    ],
)
def test_each_line_is_told_what_becomes_of_it(
    old: Path, file: str, name: str, verdict: str, says: str
) -> None:
    """Settings, classes, plugins, schemas, keys of Redis, commands and packages."""
    found, advice, _line = told(old)[file, name]
    assert found == verdict
    assert says in advice


@pytest.mark.parametrize(
    ("argument", "verdict", "says"),
    [
        ("errback=self.failed", "change", "page_failed"),
        ("errback=lambda failure: None", "change", "lambda"),
        ("callback=lambda response: None", "change", "lambda"),
        ("cb_kwargs={'a': 1}", "change", "meta"),
        ("meta={'proxy': 'http://p'}", "change", "middleware"),
    ],
)
def test_what_cannot_travel_with_a_request_is_told(
    tmp_path: Path, argument: str, verdict: str, says: str
) -> None:
    """An argument that is dropped or refused here is a line to change."""
    (tmp_path / "spider.py").write_text(f"request = Request('http://a', {argument})\n")
    (finding,) = check_project(tmp_path).findings
    assert (finding.verdict, finding.line) == (verdict, 1)
    assert says in finding.advice


def test_lines_are_where_they_say(old: Path) -> None:
    """Each finding with a line stands in that line of its file."""
    for finding in check_project(old).findings:
        if finding.line and "(" not in finding.name and ".py" not in finding.name:
            line = (old / finding.file).read_text().splitlines()[finding.line - 1]
            assert finding.name.partition("=")[0] in line, finding


def test_comments_hidden_folders_and_other_packages_are_left_out(old: Path) -> None:
    """Settings without effect, or not of Scrapy Cluster, are not listed."""
    findings = check_project(old).findings
    assert not [one for one in findings if one.file.startswith(".git")]
    assert not [one for one in findings if "migrate.py" in one.name or "price-parser" in one.name]


def test_a_report_ends_with_the_settings_and_exit_code_1(
    old: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Values that differ from the defaults can be pasted into .env; unknown ones are comments.

    A password is never shown.
    """
    (old / "settings.py").write_text("ZOOKEEPER_HOSTS = zookeepers()\n")
    assert run(["migrate", "check", str(old)]) == 1
    out = capsys.readouterr().out
    assert "\nKAFKA_HOSTS=k1:9092,k2:9092\n" in out
    assert "\n# REDIS_PASSWORD=...\n# ZOOKEEPER_HOSTS=...\n" in out
    assert "geheim" not in out
    summary = out.splitlines()[-1]
    for words in ("17 files: ", " to keep", " not needed", " to the environment", " to rename"):
        assert words in summary
    assert re.search(r" \d+ to change\. How each is done: docs/migrating\.md$", summary)
    assert run(["migrate", "check", str(old), "--todo"]) == 1
    assert not re.search(r"^ +\S+  (works|unused)", capsys.readouterr().out, re.MULTILINE)


def test_a_report_for_programs(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``--json`` has the same, each finding with file, line, name, verdict and advice."""
    assert run(["migrate", "check", str(old), "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    to_do = [one for one in report["findings"] if one["verdict"] in {"set", "rename", "change"}]
    assert report["to_do"] == len(to_do) > 20
    assert report["files"] == len(FILES)  # With the spider, without .git.
    assert report["settings"]["REDIS_HOST"] == "redis.internal"
    assert report["settings"]["REDIS_PASSWORD"] is None
    assert {*report["findings"][0]} == {"file", "line", "name", "verdict", "advice"}


def test_a_migrated_project_has_nothing_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The spider of docs/migrating.md, as it is here, ends with exit code 0."""
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "spiders.py").write_text(migrated_spiders()[1])
    assert run(["migrate", "check", str(tmp_path)]) == 0
    assert "Nothing to change." in capsys.readouterr().out


def test_the_migrated_spider_of_the_documentation_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its list leads to a product, whose price is in the result."""
    (tmp_path / "shop_after.py").write_text(migrated_spiders()[1])
    monkeypatch.syspath_prepend(str(tmp_path))
    spider: type[ClusterSpider] = import_module("shop_after").ShopSpider
    page = crawl_page(spider, "http://shop.test/", LIST, request={"maxdepth": 1})
    (product,) = page.outlinks
    assert (product.url, product.callback) == ("http://shop.test/1", "parse_product")
    page = crawl_page(spider, product, "<b class=price>9.99</b>", request={"maxdepth": 1})
    assert page.results[0]["attrs"] == {"price": "9.99"}


def test_the_sample_of_the_documentation_is_what_is_printed(
    old: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each of its lines is a line of the report about the sample project."""
    page = (DOCS / "migrating.md").read_text(encoding="utf-8")
    (sample,) = re.findall(r"```\n(crawler/crawling/settings\.py\n.*?)```", page, re.DOTALL)
    run(["migrate", "check", str(old)])
    assert {*sample.splitlines()} <= {*capsys.readouterr().out.splitlines()}


def test_settings_of_the_documentation_are_known(tmp_path: Path) -> None:
    """Settings described in docs/migrating.md are never taken for custom ones."""
    page = (DOCS / "migrating.md").read_text(encoding="utf-8")
    table = page.partition("## Settings")[2].partition("## Topics")[0]
    cells = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    names = {name for cell in cells for name in re.findall(r"`([A-Z_]+)`", cell)}
    assert len(names) > 12
    file = tmp_path / "settings.py"
    file.write_text("".join(f"{name} = 'x'\n" for name in sorted(names)))
    own = [one for one in check_project(tmp_path).findings if "of your own" in one.advice]
    assert not own


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("settings.py", "X" * (MAX_FILE_BYTES + 1), "too large"),
        ("settings.py", "A = " + "(" * 5000, "not Python 3"),
        ("settings.py", "A = 1\0", "not Python 3"),
        ("odd_schema.json", "[1]", "not a JSON schema"),
    ],
)
def test_files_that_cannot_be_read_are_told(
    tmp_path: Path, name: str, text: str, says: str
) -> None:
    """A broken file is a finding, and the others are checked all the same."""
    (tmp_path / name).write_text(text)
    (tmp_path / "localsettings.py").write_text("KAFKA_GROUP = 'mine'\n")
    broken, settings = sorted(
        check_project(tmp_path).findings, key=lambda one: one.name == "KAFKA_GROUP"
    )
    assert broken.verdict is Remedy.CHANGE
    assert says in broken.advice
    assert settings.setting == ("KAFKA_GROUP", "mine")


@pytest.mark.parametrize("name", ["absent", ""])
def test_a_folder_without_a_project_is_refused(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A sentence and exit code 2, so that a script does not take it for a clean project."""
    assert run(["migrate", "check", str(tmp_path / name)]) == 2
    assert "name the directory" in capsys.readouterr().err


def test_a_delay_of_a_spider_is_found_like_one_of_its_project(tmp_path: Path) -> None:
    """An attribute or a setting of its own; settings that stay are not listed one by one."""
    (tmp_path / "spider.py").write_text(
        "class Shop(RedisSpider):\n"
        "    download_delay = 0.5\n"
        "    custom_settings = {'DOWNLOAD_DELAY': 2, 'AUTOTHROTTLE_ENABLED': True, 'MINE': 1}\n"
    )
    found = told(tmp_path)
    for name, line in (("download_delay", 2), ("DOWNLOAD_DELAY", 3)):
        verdict, advice, at = found["spider.py", name]
        assert (verdict, at) == ("change", line)
        assert "throttle set default --hits 1" in advice
    assert found["spider.py", "AUTOTHROTTLE_ENABLED"][0] == "change"
    assert found["spider.py", "custom_settings"][0] == "works"
    assert ("spider.py", "MINE") not in found
