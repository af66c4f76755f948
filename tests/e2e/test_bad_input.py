"""Whatever a client sends: one record on the rejected topic with its reason, and life goes on."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from crawlstream_chaos.witness import Witness
from e2e.cluster import Cluster
from e2e.sites import Serve
from support.waiting import WaitUntil

CRAWL = {"url": "http://127.0.0.1/", "appid": "e2e", "crawlid": "bad"}


def as_json(**fields: Any) -> bytes:
    """A crawl request with some fields changed."""
    return json.dumps({**CRAWL, **fields}).encode()


BAD = {
    "broken JSON": (b'{"url": "http://127.0.0.1/", ', "not_json"),
    "bad UTF-8": (b'{"url": "http://127.0.0.1/\xff\xfe"}', "not_utf8"),
    "unknown fields": (as_json(colour="red"), "bad_request"),
    "deep JSON": (b'{"attrs": ' * 5000 + b"1" + b"}" * 5000, "too_deep"),
    "5 MB": (as_json(attrs={"x": "y" * 5_000_000}), "too_large"),
    "unsupported scheme": (as_json(url="ftp://example.com/file"), "bad_url"),
    "a local file": (as_json(url="file:///etc/passwd"), "bad_url"),
    "empty URL": (as_json(url=""), "bad_url"),
    "an empty record": (b"", "empty"),
    "not an object": (b"[1, 2]", "not_an_object"),
    "a bad expression": (as_json(allow_regex=["("]), "bad_regex"),
}


@pytest.mark.parametrize("name", BAD)
async def test_bad_records_are_rejected_with_their_reason(
    name: str, witness: Witness, wait_until: WaitUntil
) -> None:
    """Exactly one rejected record: the code, sentences, the place, and the bytes as they came."""
    raw, reason = BAD[name]
    known = len(witness.records("rejected"))
    witness.feed_raw(raw)
    await wait_until(lambda: len(witness.records("rejected")) > known)
    # A later record has been judged too, so a second rejection would be here by now.
    uuid = witness.feed_request(action="info", appid="e2e", spiderid="link")
    await witness.answered(uuid)
    (seen,) = witness.records("rejected")[known:]
    assert seen.value["reason"] == reason, seen.value["errors"]
    assert seen.value["errors"]
    assert all(isinstance(sentence, str) for sentence in seen.value["errors"])
    assert {"topic", "partition", "offset", "timestamp", "version"} <= seen.value.keys()
    assert seen.value["raw"] is None or base64.b64decode(seen.value["raw"]) == raw


async def test_a_client_that_can_be_named_is_told(witness: Witness) -> None:
    """A refused request whose uuid can be read is answered on the outbound topic as well."""
    witness.feed_raw(as_json(uuid="u-refused", url=""))
    reply = await witness.answered("u-refused")
    assert reply["action"] == "rejected"
    assert reply["errors"]
    assert (reply["appid"], reply["crawlid"]) == ("e2e", "bad")


async def test_a_flood_of_bad_records_holds_back_no_good_one(
    serve: Serve, witness: Witness, wait_until: WaitUntil, cluster: Cluster
) -> None:
    """Serves a good record among a thousand bad ones, by the same kafka-monitor as before."""
    before = await cluster.pids("kafka-monitor")
    known = len(witness.records("rejected"))
    async with serve(hosts=1, pages=1) as served:
        name = {"appid": "e2e", "crawlid": f"flood-{served.web.port}"}
        witness.feed_raw(*[b"{nonsense"] * 500)
        witness.feed({"url": served.web.seed_url, **name})
        witness.feed_raw(*[b"{nonsense"] * 500)
        await wait_until(lambda: witness.results(name["crawlid"]), timeout_s=90)
    await wait_until(lambda: len(witness.records("rejected")) == known + 1000, timeout_s=90)
    assert await cluster.pids("kafka-monitor") == before


async def test_internal_addresses_are_refused(witness: Witness) -> None:
    """A private address that is not allowed is not fetched: page_failed says so."""
    name = {"appid": "e2e", "crawlid": "internal"}
    witness.feed({"url": "http://169.254.169.254/latest/meta-data", **name})
    await witness.ended("internal", timeout_s=90)
    (failed,) = witness.events("internal", "page_failed")
    assert failed["reason"] == "address_refused"
    assert not witness.results("internal")
