"""The signature of a request, judged by another project's verifier of RFC 9421."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlstream.model.web.address import address
from crawlstream.signing.keys import Key, new_key
from crawlstream.signing.signer import DIRECTORY_PATH, Form, Signer, Terms, authority_of
from crawlstream_chaos.laws.signatures import Refused, Verifier

NOW = 1_795_840_061.7
AGENT = "https://bot.example"
TERMS = Terms(agent=AGENT)


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Key:
    """A key for all tests."""
    return new_key(Path(tmp_path_factory.mktemp("key"), "a.pem"))


def _signed(key: Key, terms: Terms = TERMS, url: str = "https://example.com/a") -> dict[str, str]:
    signed = Signer(key, terms, clock=lambda: NOW).headers(url)
    return {name.lower(): value for name, value in signed.items()}


FORMS = {
    "string": '"https://bot.example"',
    "origin": 'sig1="https://bot.example"',
    "url": f'sig1="https://bot.example{DIRECTORY_PATH}"',
}
COVERS: list[tuple[str, ...]] = [(), ("@method",), ("@path",), ("@method", "@path")]


@pytest.mark.parametrize(("form", "covers"), list(itertools.product(FORMS, COVERS)))
def test_a_verifier_accepts_every_form(key: Key, form: Form, covers: tuple[str, ...]) -> None:
    """Makes every form that a verifier accepts, whatever the signature covers."""
    terms = replace(TERMS, form=form, covers=covers)  # type: ignore[arg-type]
    headers = _signed(key, terms)
    assert headers["signature-agent"] == FORMS[form]
    assert all(cover in headers["signature-input"] for cover in covers)
    said = Verifier({key.keyid: key.x}).verify(headers, authority="example.com", now=NOW, path="/a")
    assert said["alg"] == "ed25519"
    assert (said["created"], said["expires"]) == (NOW // 1 - 5, NOW // 1 + 60)


def test_a_signature_holds_for_one_authority_agent_and_minute(key: Key) -> None:
    """A changed one is refused, and so is a signature of the future or the past."""
    verifier, headers = Verifier({key.keyid: key.x}), _signed(key)
    for authority, more, now in (
        ("example.org", {}, NOW),
        ("example.com:8443", {}, NOW),
        ("example.com", {"signature-agent": '"https://other.example"'}, NOW),
        ("example.com", {}, NOW - 6),
        ("example.com", {}, NOW + 61),
    ):
        with pytest.raises(Refused):
            verifier.verify({**headers, **more}, authority=authority, now=now)
    verifier.verify(headers, authority="example.com", now=NOW + 54)


def test_no_signature_comes_twice(key: Key) -> None:
    """Makes no signature twice, even within a second for one page, unless nonces are off."""
    assert _signed(key) != _signed(key)
    terms = replace(TERMS, has_nonce=False)
    assert _signed(key, terms) == _signed(key, terms)


AUTHORITIES = {
    "http://example.com": "example.com",
    "http://example.com:80/": "example.com",
    "https://example.com:443?x": "example.com",
    "https://example.com:80/": "example.com:80",
    "http://example.com:443/": "example.com:443",
    "http://127.0.0.1:8000/a:b": "127.0.0.1:8000",
    "http://[::1]/": "[::1]",
    "https://[::1]:8443/": "[::1]:8443",
    "https://xn--fa-hia.example/#x": "xn--fa-hia.example",
}


@pytest.mark.parametrize("url", AUTHORITIES)
def test_the_authority_is_the_host_header(url: str) -> None:
    """Signs the Host header as authority, without the port that the scheme implies."""
    assert authority_of(url) == AUTHORITIES[url]


@given(
    scheme=st.sampled_from(["http", "https"]),
    host=st.sampled_from(["example.com", "EXAMPLE.com", "faß.example", "[::1]", "127.1"]),
    port=st.integers(1, 65535),
    rest=st.sampled_from(["", "/", "/a:80", "?q=:80", "#:443", "/@b"]),
)
def test_the_authority_of_an_address_names_its_place(
    scheme: str, host: str, port: int, rest: str
) -> None:
    """Names the place of an address as its authority, whatever else the address has."""
    found = authority_of(address(f"{scheme}://{host}:{port}{rest}"))
    plain = authority_of(address(f"{scheme}://{host}/"))
    usual = {"http": 80, "https": 443}[scheme]
    assert found == (plain if port == usual else f"{plain}:{port}")


UNPLAIN = ("/a%20b", "//a", "/a/../b", "/.hidden", "/a|b", "/é")


@pytest.mark.parametrize("path", UNPLAIN)
def test_a_path_that_verifiers_read_differently_is_not_covered(key: Key, path: str) -> None:
    """The signature holds without it."""
    headers = _signed(key, replace(TERMS, covers=("@path",)), f"https://example.com{path}?q=/x")
    assert "@path" not in headers["signature-input"]
    Verifier({key.keyid: key.x}).verify(headers, authority="example.com", now=NOW)
