"""``crawlstream signing``: from the first key to a rotation, with a directory behind real TLS."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from crawlstream.signing import directory
from crawlstream.signing.signer import DIRECTORY_PATH
from crawlstream_chaos.laws.signatures import Verifier
from crawlstream_chaos.scripted_site import Answer, CrawlerSite, SeenRequest, serving
from crawlstream_cli.app import run
from support.crawler.tls import TlsSite, make_certificate


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CrawlerSite]:
    """The site that publishes the directory, with a certificate that this process trusts."""
    with serving({}, kind=TlsSite) as site:
        assert isinstance(site, TlsSite)
        certificate = make_certificate(tmp_path)
        site.certify(certificate)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        monkeypatch.setenv("CRAWLSTREAM_SIGNATURE_AGENT", site.url("").rstrip("/"))
        monkeypatch.setenv("CRAWLSTREAM_SIGNING_DIRECTORY", str(tmp_path / "directory.json"))
        monkeypatch.chdir(tmp_path)
        yield site


def _publish(site: CrawlerSite) -> None:
    made = directory.read(Path("directory.json"))
    site.pages[DIRECTORY_PATH] = Answer(made.body.encode(), headers=made.headers)


def _list(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    monkeypatch.setenv("CRAWLSTREAM_SIGNING_KEYS", ",".join(names))


def _said(capsys: pytest.CaptureFixture[str]) -> str:
    out, err = capsys.readouterr()
    return out + err


def test_a_key_is_made_published_and_checked(
    agent: CrawlerSite, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each check that fails says why, and the exit code is 1 until all hold."""
    assert run(["signing", "new", "a.pem"]) == 0
    assert "CRAWLSTREAM_SIGNING_KEYS=a.pem" in _said(capsys)
    assert run(["signing", "new", "a.pem"]) == 2
    assert run(["signing", "check"]) == 2
    assert "CRAWLSTREAM_SIGNING_KEYS is empty" in _said(capsys)
    _list(monkeypatch, "a.pem")
    assert run(["signing", "check"]) == 1
    assert "status 404" in _said(capsys)
    assert run(["signing", "directory", "--plain", "www"]) == 0
    assert Path("www/http-message-signatures-directory").read_text().startswith('{"keys":[{')
    _publish(agent)
    assert run(["signing", "check"]) == 0
    assert "warning: requests are signed, and CRAWLSTREAM_DIRECTIVES=record" in _said(capsys)
    monkeypatch.setenv("CRAWLSTREAM_DIRECTIVES", "obey")
    assert run(["signing", "check"]) == 0
    assert "warning" not in _said(capsys)
    assert run(["signing", "show", "--json"]) == 0
    shown = json.loads(_said(capsys))
    assert shown["directory"] == os.environ["CRAWLSTREAM_SIGNATURE_AGENT"] + DIRECTORY_PATH
    run(["signing", "new", "b.pem"])
    _list(monkeypatch, "a.pem", "b.pem")
    _said(capsys)
    assert run(["signing", "check"]) == 1
    assert "not in the directory: publish it" in _said(capsys)
    old = agent.pages[DIRECTORY_PATH]
    assert isinstance(old, Answer)
    agent.pages[DIRECTORY_PATH] = Answer(old.body + b" ", headers=old.headers)
    assert run(["signing", "check"]) == 1
    assert "its signature of the directory does not hold" in _said(capsys)


def test_a_signed_request_is_tried_on_a_site(
    agent: CrawlerSite, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The answer, and what the site says of the signature."""
    run(["signing", "new", "a.pem"])
    _list(monkeypatch, "a.pem")
    run(["signing", "directory"])
    _publish(agent)

    def judged(visit: SeenRequest) -> Answer:
        jwk = json.loads(directory.read(Path("directory.json")).body)["keys"][0]
        verifier = Verifier({jwk["kid"]: jwk["x"]})
        verifier.verify(visit.headers, authority=visit.headers["host"], now=visit.at)
        return Answer(status=200)

    agent.pages["/good"] = judged
    agent.pages["/bad"] = Answer(status=400, headers={"crawler-error": "InvalidSignature"})
    assert run(["signing", "check", "--url", agent.url("/good")]) == 0
    _said(capsys)
    assert run(["signing", "check", "--url", agent.url("/bad")]) == 1
    assert "status 400; Crawler-Error: InvalidSignature" in _said(capsys)


@pytest.mark.usefixtures("agent")
def test_a_rotation_waits_for_verifiers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The new key is published for a day before it signs; a stolen one is replaced at once."""
    run(["signing", "new", "a.pem"])
    run(["signing", "new", "b.pem"])
    _list(monkeypatch, "a.pem")
    run(["signing", "directory"])
    _said(capsys)
    assert run(["signing", "rotate", "b.pem"]) == 0
    assert "Step 1 of 3" in _said(capsys)
    _list(monkeypatch, "a.pem", "b.pem")
    run(["signing", "directory"])
    _said(capsys)
    assert run(["signing", "rotate", "b.pem"]) == 1
    assert "too early" in _said(capsys)
    assert run(["signing", "rotate", "b.pem", "--now"]) == 0
    assert "Step 2 of 3" in _said(capsys)
