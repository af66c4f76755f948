"""Signed requests through proxies: the site verifies them, and no proxy of a tunnel sees them."""

from __future__ import annotations

from pathlib import Path

from crawling.egress.signatures import Signatures
from crawlstream.boot.settings import load_settings
from crawlstream.signing.keys import Key, new_key
from crawlstream_chaos.laws.signatures import Verifier
from crawlstream_chaos.scripted_site import CrawlerSite, SeenRequest, page, serving
from support.crawler.proxied import Bench

AGENT = "https://bot.example"


def _signatures(key: Path) -> Signatures:
    settings = load_settings(CRAWLSTREAM_SIGNING_KEYS=str(key), CRAWLSTREAM_SIGNATURE_AGENT=AGENT)
    found = Signatures.of(settings, "link")
    assert found
    return found


def _verify(visits: list[SeenRequest], key: Key) -> None:
    verifier = Verifier({key.keyid: key.x})
    for visit in visits:
        verifier.verify(visit.headers, authority=visit.headers["host"], now=visit.at)


async def test_a_tunnel_knows_nothing_of_a_signature(
    bench: Bench, site: CrawlerSite, tmp_path: Path
) -> None:
    """CONNECT carries none of its headers; each of two attempts is signed for the site."""
    key = new_key(tmp_path / "key.pem")
    with (
        serving({}) as proxy,
        bench.visiting(signatures=_signatures(tmp_path / "key.pem")) as visitor,
    ):
        await bench.of(f"http://127.0.0.9:{proxy.port}", policy="plain: absolute")
        proxy.pages[site.url("/")] = page()
        for _ in range(2):
            assert (await visitor.fetch(site.url("/"), proxy="de")).status == 200
        assert visitor.latest
        assert visitor.latest.signed == key.keyid
        assert [visit.path for visit in proxy.visits] == [site.url("/")] * 2
        _verify(proxy.visits, key)
        await bench.of(f"http://127.0.0.9:{proxy.port}")
        await visitor.outcome(site.url("/"), proxy="de")
        connect = proxy.visits[-1]
    assert connect.method == "CONNECT"
    assert not {"signature", "signature-input", "signature-agent"} & connect.headers.keys()
