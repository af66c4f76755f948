"""Checks of a search server and of its index before a pipeline writes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from crawlstream.boot.settings import load_settings
from crawlstream.errors import ConfigError
from crawlstream.plugins.sinks import SinkUnavailable
from pipeline_service.contract import rows_of
from pipeline_service.sink_factory import prove
from support.crawler.tls import make_certificate
from support.pipelines import writer
from support.pipelines.results import record
from support.pipelines.search_server import SearchServer, search_server
from support.pipelines.searching import SPEC, A, B, opened, store_pages
from support.pipelines.targets import documents_of

Break = Callable[[SearchServer], object]


def _remapped(server: SearchServer) -> None:
    server.indexes["pages"].mappings["properties"]["url"] = {"type": "long"}


def _narrowed(server: SearchServer) -> None:
    del server.indexes["pages"].mappings["properties"]["depth"]


@pytest.mark.parametrize(
    ("breaks", "message"),
    [
        (lambda server: setattr(server, "authorization", "Basic x"), "refuses the credentials"),
        (lambda server: setattr(server, "fault", lambda *_: 403), "does not permit GET /"),
        (_remapped, "the field url of the index pages is of type long"),
        (_narrowed, "has no field depth: set migrate = true"),
        (lambda server: server.indexes.pop("pages"), "the index pages is gone"),
        (
            lambda server: server.indexes["pages"].settings.pop("gc_deletes"),
            "set its index.gc_deletes to 25h",
        ),
        (
            lambda server: server.indexes["pages"].settings.update(
                translog={"durability": "async"}
            ),
            "index.translog.durability",
        ),
    ],
)
async def test_a_check_says_what_an_operator_has_to_change(
    breaks: Break, message: str, server: SearchServer, url: str
) -> None:
    """Names in one sentence what an operator has to change, and changes nothing itself."""
    table = f'kind = "search", url = "{url}"'
    asked = writer.pipeline(table)
    prove(load_settings(), asked)
    assert not server.indexes
    await store_pages(table, [record(1)])
    prove(load_settings(), asked)
    breaks(server)
    before = len(server.requests)
    with pytest.raises(ConfigError, match=message):
        prove(load_settings(), asked)
    writing = {"PUT", "DELETE"}
    assert not [each for each in server.requests[before:] if each[0] in writing]


async def test_fields_that_an_index_lacks_are_added_on_demand(
    server: SearchServer, url: str
) -> None:
    """Adds missing fields and prolongs the memory of deletes if `migrate` is set; no more."""
    table = f'kind = "search", url = "{url}", migrate = true'
    await store_pages(table, [record(1, url=A)])
    _narrowed(server)
    server.indexes["pages"].settings.pop("gc_deletes")
    server.indexes["pages"].mappings["properties"]["mine"] = {"type": "text"}
    await store_pages(table, [record(2, url=B)], at=1)
    properties = server.indexes["pages"].mappings["properties"]
    assert properties["depth"] == {"type": "long"}
    assert properties["mine"] == {"type": "text"}
    assert server.indexes["pages"].settings["gc_deletes"] == "25h"
    assert len(documents_of(url)) == 2


def test_an_index_that_two_processes_create_is_there_once(server: SearchServer, url: str) -> None:
    """The second one finds that of the first."""
    with closing(opened(url)) as first, closing(opened(url, is_open=False)) as second:
        first.put(rows_of(SPEC, 1))
        missing = ["/pages", "/pages-crawlstream"]

        def not_yet(method: str, path: str) -> int | None:
            if method != "GET" or path not in missing:
                return None
            missing.remove(path)
            return 404

        server.fault = not_yet
        second.open()
    assert not missing
    assert len(documents_of(url)) == 1


@pytest.mark.parametrize(
    ("secret", "more", "header"),
    [("user:p%40ss@", "", "Basic dXNlcjpwQHNz"), ("", ', api_key = "k"', "ApiKey k")],
)
async def test_credentials_are_sent_and_not_shown(
    secret: str, more: str, header: str, server: SearchServer, url: str
) -> None:
    """User and password of the URL, with its escapes, or a key."""
    server.authorization = header
    table = f'kind = "search", url = "{url.replace("//", f"//{secret}")}"{more}'
    await store_pages(table, [record(1)])
    server.authorization = "other"
    with pytest.raises(ConfigError) as caught:
        prove(load_settings(), writer.pipeline(table))
    assert "p%40ss" not in str(caught.value)


def test_a_server_of_another_kind_is_recognized(server: SearchServer, url: str) -> None:
    """Recognizes other servers by their answer; an unavailable server has no answer."""
    server.distribution = None
    server.fault = lambda _method, path: 404 if path == "/" else None
    for at, message in ((url, "answers GET / with 404"), ("http://127.0.0.1:1", "does not answer")):
        with (
            closing(opened(at, is_open=False)) as store,
            pytest.raises(SinkUnavailable, match=message),
        ):
            store.open()


def test_a_certificate_has_to_be_trusted(tmp_path: Path) -> None:
    """Trusts certificates of the file `ca` only, and only for their own host."""
    certificate = make_certificate(tmp_path)
    with search_server(certificate) as (_, url):
        table = f'kind = "search", url = "{url}"'
        with pytest.raises(ConfigError, match=r"is not trusted.*set ca"):
            prove(load_settings(), writer.pipeline(table))
        prove(load_settings(), writer.pipeline(f'{table}, ca = "{certificate}"'))
        other = table.replace("127.0.0.1", "localhost")
        with pytest.raises(ConfigError, match="is not trusted"):
            prove(load_settings(), writer.pipeline(f'{other}, ca = "{certificate}"'))
    with pytest.raises(ConfigError, match="ca: the file /none cannot be read"):
        prove(load_settings(), writer.pipeline(f'{table}, ca = "/none"'))
