"""The law of signed requests: whatever is planted in a site's log is refused, and says why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from chaos.laws.good_facts import GOOD, STRIKE
from crawlstream.signing.keys import Key, new_key
from crawlstream.signing.signer import Signer, Terms
from crawlstream_chaos.facts.facts import RESULTS, Facts, Published, TopicRecord
from crawlstream_chaos.laws.auditor import audit
from crawlstream_cli.demo.access_log import LoggedRequest

AGENT = "https://bot.example"
HOST = "127.0.0.1:1"
ROTATED_MS = 2_500
"""The old key is withdrawn, after the new one has signed for a while."""


@pytest.fixture(scope="module", name="keys")
def keys_fixture(tmp_path_factory: pytest.TempPathFactory) -> Sequence[Key]:
    """The old key and the new one."""
    folder = tmp_path_factory.mktemp("keys")
    return [new_key(Path(folder, name)) for name in ("old.pem", "new.pem")]


def _headers(
    key: Key, at_s: float, url: str = f"http://{HOST}/", agent: str = AGENT
) -> dict[str, str]:
    signed = Signer(key, Terms(agent=agent), clock=lambda: at_s).headers(url)
    return {name.lower(): value for name, value in signed.items()}


def _signed(visit: LoggedRequest, **headers: str) -> LoggedRequest:
    return replace(visit, authority=HOST, signature=headers)


def _facts(keys: Sequence[Key]) -> Facts:
    """Good facts of a round in which the key changed: the first two requests have the old one."""
    old, new = ({key.keyid: key.x} for key in keys)
    signers = [keys[0]] * 2 + [keys[1]] * 4
    visits = [
        _signed(visit, **_headers(key, visit.wall / 1000))
        for visit, key in zip(GOOD.visits, signers, strict=True)
    ]
    published = [Published(-1, old), Published(1_500, old | new), Published(ROTATED_MS, new)]
    return replace(
        GOOD, visits=visits, published=published, records=[_named(r, keys[1]) for r in GOOD.records]
    )


def _named(record: TopicRecord, key: Key) -> TopicRecord:
    if record.topic != RESULTS:
        return record
    return replace(record, value={**record.value, "signed": key.keyid})


def test_signed_requests_are_verified_with_the_directory_of_their_time(
    keys: Sequence[Key],
) -> None:
    """Verifies requests before, while and after both keys are published; without keys, none."""
    assert audit(_facts(keys)) == []
    assert audit(GOOD) == []


Altered = Callable[[LoggedRequest, Sequence[Key]], LoggedRequest]
ALTERED: dict[str, tuple[Altered, str]] = {
    "no signature": (lambda visit, _: replace(visit, signature={}), "header field to be present"),
    "another host": (
        lambda visit, _: replace(visit, authority="127.0.0.2:1"), "127.0.0.1/1 is refused",
    ),
    "another agent": (
        lambda visit, _: _signed(
            visit, **{**visit.signature, "signature-agent": '"https://other.example"'}
        ),
        "127.0.0.1/1 is refused",
    ),
    "another time": (
        lambda visit, keys: _signed(visit, **_headers(keys[1], visit.wall / 1000 - 60)),
        "early or expired",
    ),
    "the future": (
        lambda visit, keys: _signed(visit, **_headers(keys[1], visit.wall / 1000 + 6)),
        "early or expired",
    ),
    "the key that was withdrawn": (
        lambda visit, keys: _signed(visit, **_headers(keys[0], visit.wall / 1000)),
        "Unable to resolve",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("altered", "words"), ALTERED.values(), ids=ALTERED)
def test_an_altered_request_is_refused(keys: Sequence[Key], altered: Altered, words: str) -> None:
    """The verifier refuses it for its host, its agent, its time, or its key."""
    facts = _facts(keys)
    visits = [*facts.visits[:-1], altered(facts.visits[-1], keys)]
    (found,) = audit(replace(facts, visits=visits))
    assert found.law == "every request is signed"
    assert words in found.what


def test_a_signature_that_is_sent_again_is_refused(keys: Sequence[Key]) -> None:
    """Rejects a repeated signature, even within its minute and for the same host."""
    facts = _facts(keys)
    visits = [*facts.visits[:-1], _signed(facts.visits[-1], **facts.visits[-2].signature)]
    (found,) = audit(replace(facts, visits=visits))
    assert "the nonce came before" in found.what


def test_dates_are_not_judged_where_crawlers_have_other_clocks(keys: Sequence[Key]) -> None:
    """Judges all but dates if crawlers have other clocks."""
    facts = _facts(keys)
    late = [_signed(v, **_headers(keys[1], v.wall / 1000 - 3_600)) for v in facts.visits[2:]]
    facts = replace(facts, visits=[*facts.visits[:2], *late])
    assert len(audit(facts)) == 4
    clocks = replace(STRIKE, fault="wrong-clock", at=10_000)
    assert audit(replace(facts, strikes=[*facts.strikes, clocks])) == []


def test_a_result_names_its_key(keys: Sequence[Key]) -> None:
    """The key is in the directory."""
    facts = _facts(keys)
    (found,) = audit(replace(facts, records=[*GOOD.records[:1], *facts.records[1:]]))
    assert "names no key" in found.what
