"""``crawlstream crawl``: its arguments as requests, and the signals that end it."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import orjson
import pytest
import typer

from crawlstream.errors import ConfigError
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.request import CrawlRequest
from crawlstream.model.scope import Scope, SitemapUse
from crawlstream.wire.requests import decode
from crawlstream_cli.app import run
from crawlstream_cli.crawl import interruption
from crawlstream_cli.crawl.interruption import until_signal
from crawlstream_cli.crawl.request_options import RequestOptions, seed
from crawlstream_cli.crawl.session import CrawlSession

SEED = "https://docs.example.com/a/b"
CRAWL = CrawlKey("link", "crawlstream", "job")


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs ``crawl`` up to where its requests would be fed, and gives them."""
    found: list[dict[str, Any]] = []

    async def follow(_session: CrawlSession, requests: Any) -> None:
        found.extend(requests)
        raise ConfigError("enough")

    monkeypatch.setattr(CrawlSession, "follow", follow)

    def type_(*words: str) -> list[dict[str, Any]]:
        found.clear()
        run(["crawl", *words])
        return list(found)

    return type_


def test_a_crawl_by_hand_stays_on_the_hosts_of_its_seeds(typed: Any) -> None:
    """Sets the hosts of the seeds as its scope, and nothing that is a default."""
    first, second = typed(SEED, "example.org:8080")
    assert first.pop("uuid") != second.pop("uuid")
    assert first.pop("url") == SEED
    assert second.pop("url") == "example.org:8080"
    assert first == second
    del first["crawlid"]
    assert first == {
        "appid": "crawlstream",
        "spiderid": "link",
        "maxdepth": 0,
        "allowed_domains": ["docs.example.com", "example.org"],
    }


def test_every_option_is_a_field_that_the_cluster_takes(typed: Any) -> None:
    """Typed arguments pass the schema of crawl requests, with their meaning."""
    words = "--scope domain --allow-domain cdn.net --allow-regex /a --allow-regex /b --deny-regex x"
    pairs = ("--header", "X-Key: a: b", "--attr", "team=a=b", "--attr", "empty=")
    (request,) = typed(SEED, *words.split(), *pairs, "--priority", "70", "-d", "2", "-s", "shop")
    taken: Any = decode(orjson.dumps(request))
    assert taken.allowed_domains == ("example.com", "cdn.net")
    assert (taken.allow_regex, taken.deny_regex) == (("/a", "/b"), ("x",))
    assert dict(taken.headers) == {"X-Key": "a: b"}
    assert dict(taken.attrs) == {"team": "a=b", "empty": ""}
    assert (taken.priority, taken.maxdepth, taken.spiderid) == (70, 2, "shop")
    (request,) = typed(SEED, "--sitemaps", "only", "-d", "1")
    assert request["sitemaps"] == "only"
    assert isinstance(decode(orjson.dumps(request)), CrawlRequest)
    (request,) = typed(SEED, "--drop-parameter", "utm_*", "--keep-parameter", "id")
    assert request["parameters"] == {"keep": ["id"], "drop": ["utm_*"]}
    (request,) = typed(SEED, "--render-auto")
    assert request["render"] == "auto"
    (request,) = typed(SEED, "--score", "inlinks")
    assert request["score"] == "inlinks"
    (request,) = typed(SEED, "--host-budget", "10, 5")
    assert request["host_budget"] == [10, 5]
    assert isinstance(decode(orjson.dumps(request)), CrawlRequest)
    (request,) = typed(SEED, "--prefer", "/a=b=+200", "--prefer", "/c=-30", "--prefer", "/d=drop")
    preferred = [{"match": "/a=b", "add": 200}, {"match": "/c", "add": -30}]
    assert request["priorities"] == [*preferred, {"match": "/d", "drop": True}]
    assert isinstance(decode(orjson.dumps(request)), CrawlRequest)


def test_budgets_of_domains_are_typed_as_those_of_a_crawl(typed: Any) -> None:
    """Bytes with a unit, and a share; what was not typed is not in the request."""
    words = ("--domain-max-bytes", "50M", "--domain-max-failed-share", "0.5")
    (request,) = typed(SEED, *words)
    taken: Any = decode(orjson.dumps(request))
    assert (taken.domain_max_bytes, taken.domain_max_failed_share) == (50_000_000, 0.5)
    assert not typed(SEED, "--domain-max-failed-share", "1.5")
    (request,) = typed(SEED)
    assert not {"domain_max_bytes", "domain_max_failed_share"} & request.keys()


@pytest.mark.parametrize("scope", list(Scope))
def test_every_scope_is_taken(scope: Scope, typed: Any) -> None:
    """Its fields are no more than those of a crawl request."""
    (request,) = typed(SEED, "--scope", scope.value)
    assert isinstance(decode(orjson.dumps(request)), CrawlRequest)


@pytest.mark.parametrize(
    ("wishes", "sentence"),
    [
        (RequestOptions(header=["X-Key"]), "--header 'X-Key': expected a name, ':' and a value"),
        (RequestOptions(prefer=["/a"]), "--prefer '/a': expected an expression, '=' and a change"),
        (RequestOptions(prefer=["=-10"]), "such as '/products/=.200' or '/login=drop'"),
        (RequestOptions(attr=["=a"]), "--attr '=a': expected a name, '=' and a value"),
        (
            RequestOptions(scope=Scope.PREFIX, allow_regex=["/a"]),
            "--allow-regex exclude each other",
        ),
        (RequestOptions(sitemaps=SitemapUse.ALSO), "--sitemaps needs --depth of at least 1"),
        (RequestOptions(host_budget="10"), "--host-budget 10: must be two numbers up to 999999"),
        (RequestOptions(render_auto=True, render=True), "--render-auto excludes --render"),
    ],
    ids=["header", "prefer", "empty prefer", "attr", "prefix", "sitemaps", "host budget", "render"],
)
def test_what_cannot_be_meant_is_said_before_anything_is_fed(
    wishes: RequestOptions, sentence: str
) -> None:
    """A single sentence, with a valid example."""
    with pytest.raises(ConfigError, match=sentence):
        wishes.fields([seed(CRAWL, SEED, 0)["url"]])


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "expected at least one URL to crawl, or --attach"),
        (["--attach", "job", SEED], "--attach follows a crawl as it is: leave out URLs"),
        (["--attach", "job", "--depth", "2"], "--attach follows a crawl as it is: leave out URLs"),
        (["--attach", "job", "--detach"], "--attach follows a crawl as it is: leave out URLs"),
        ([SEED, "--detach", "-o", "a.jsonl"], "--detach writes no results: leave out --output"),
        (
            [SEED, "-o", "a.csv"],
            "--output a.csv: expected a file name that ends in .jsonl, .jsonl.gz",
        ),
    ],
    ids=["nothing", "attached URL", "attached depth", "both", "detached output", "unknown format"],
)
def test_options_that_contradict_each_other_are_refused(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Refuses contradictory options in one sentence, before any server is called."""
    assert run(["crawl", *words]) == 2
    assert capsys.readouterr().err.startswith(f"crawlstream: {sentence}")


@pytest.mark.parametrize(
    ("at_once_s", "done"), [(60.0, ["stopping", "stopped"]), (0.0, ["stopping", "let go"])]
)
def test_a_signal_that_arrives_twice_at_once_is_one(
    at_once_s: float, done: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`timeout` signals a command and then its group; only a later signal cancels the stop."""
    monkeypatch.setattr(interruption, "AT_ONCE_S", at_once_s)
    told: list[str] = []

    async def work() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            told.append("stopping")
            os.kill(os.getpid(), signal.SIGTERM)
            try:
                await asyncio.sleep(0.2)
                told.append("stopped")
            except asyncio.CancelledError:
                told.append("let go")
            raise

    with pytest.raises(typer.Exit) as ended:
        until_signal(work())
    assert (ended.value.exit_code, told) == (128 + signal.SIGTERM, done)


def test_actions_are_a_list_or_the_file_with_it(typed: Any, tmp_path: Path) -> None:
    """Renders the pages, with a screenshot or without."""
    file = tmp_path / "actions.json"
    file.write_text(' [{"scroll": 3}]\n')
    for written in (str(file), ' [{"scroll": 3}]'):
        (request,) = typed(SEED, "--actions", written)
        assert request["render"] == {"actions": [{"scroll": 3}]}
        decode(orjson.dumps(request))
    (request,) = typed(SEED, "--actions", str(file), "--screenshot-of", "full")
    assert request["render"] == {"screenshot": "full", "actions": [{"scroll": 3}]}
    assert typed(SEED, "--screenshot-of", "full")[0]["render"] == {"screenshot": "full"}
    assert typed(SEED, "--render")[0]["render"] is True


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("none.json", "'none.json': No such file or directory: expected a JSON list of actions"),
        ("[{]", "the list of actions: not JSON"),
        ('{"click": "a"}', "the list of actions: expected a list of actions, such as"),
        ('["click"]', "the list of actions: expected a list of actions, such as"),
    ],
)
def test_actions_that_are_not_a_list_are_refused(
    typed: Any, capsys: pytest.CaptureFixture[str], written: str, problem: str
) -> None:
    """Says what was expected, and feeds nothing."""
    assert typed(SEED, "--actions", written) == []
    assert problem in " ".join(capsys.readouterr().err.replace("│", " ").split())
