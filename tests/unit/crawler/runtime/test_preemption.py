"""Termination notices: each cloud's answers, from a stand-in of its metadata service."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Iterator
from http.client import HTTPException
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, cast

import pytest

from crawling.runtime.preemption import Amazon, Azure, Google, MachineMetadata, Watcher, look_of
from crawlstream.boot.settings import load_settings
from crawlstream.errors import ConfigError


class Service:
    """Answers by method and path as told, and remembers who asked with which headers."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, str]] = {}
        self.asked: list[tuple[str, dict[str, str]]] = []
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked = f"{self.command} {self.path.partition('?')[0]}"
                service.asked.append((asked, {k.lower(): v for k, v in self.headers.items()}))
                status, text = service.answers.get(asked, (404, "no such thing"))
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            do_PUT = do_GET  # noqa: N815  http.server's name

            def log_message(self, *_args: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def service() -> Iterator[Service]:
    """A metadata service on loopback."""
    service = Service()
    thread = threading.Thread(target=service.server.serve_forever, args=(0.01,))
    thread.start()
    yield service
    service.server.shutdown()
    thread.join()
    service.server.server_close()


def test_amazon_is_asked_with_a_token_that_is_kept(service: Service) -> None:
    """A token serves many looks; 404 means no notice, an action is one."""
    action = "GET /latest/meta-data/spot/instance-action"
    service.answers["PUT /latest/api/token"] = (200, "T0")
    look = Amazon(MachineMetadata(service.url))
    assert [look(), look()] == [False, False]
    service.answers[action] = (200, '{"action": "terminate", "time": "2026-01-01T00:00:00Z"}')
    assert look()
    assert [asked for asked, _ in service.asked] == ["PUT /latest/api/token", *[action] * 3]
    assert service.asked[0][1]["x-aws-ec2-metadata-token-ttl-seconds"] == "21600"
    assert service.asked[1][1]["x-aws-ec2-metadata-token"] == "T0"


def test_amazon_renews_a_token_that_has_expired(service: Service) -> None:
    """401 means no notice; the next look brings a new token."""
    service.answers = {
        "PUT /latest/api/token": (200, "T0"),
        "GET /latest/meta-data/spot/instance-action": (401, ""),
    }
    look = Amazon(MachineMetadata(service.url))
    assert not look()
    service.answers["GET /latest/meta-data/spot/instance-action"] = (200, "{}")
    assert look()
    assert [asked for asked, _ in service.asked].count("PUT /latest/api/token") == 2


def test_google_says_true_or_false(service: Service) -> None:
    """The answer is a word; the request says that it knows whom it asks."""
    path = "GET /computeMetadata/v1/instance/preempted"
    look = Google(MachineMetadata(service.url))
    for word, announced in {"FALSE": False, "TRUE": True}.items():
        service.answers[path] = (200, word)
        assert look() is announced
    assert service.asked[0][1]["metadata-flavor"] == "Google"


@pytest.mark.parametrize(
    ("kind", "machines", "announced"),
    [
        ("Preempt", ["worker_7"], True),
        ("Terminate", ["worker_1", "worker_7"], True),
        ("Preempt", ["worker_1"], False),
        ("Freeze", ["worker_7"], False),
    ],
)
def test_azure_lists_the_whole_scale_set(
    service: Service, kind: str, machines: list[str], *, announced: bool
) -> None:
    """Accepts only an event that ends this machine as a notice."""
    events = {"Events": [{"EventType": kind, "Resources": machines}]}
    service.answers = {
        "GET /metadata/instance/compute/name": (200, "worker_7"),
        "GET /metadata/scheduledevents": (200, json.dumps(events)),
    }
    assert Azure(MachineMetadata(service.url))() is announced
    assert {headers["metadata"] for _, headers in service.asked} == {"true"}


@pytest.mark.parametrize("answer", [(500, ""), (302, ""), (200, "<html>"), (403, "denied")])
def test_a_strange_answer_is_no_notice(service: Service, answer: tuple[int, str]) -> None:
    """Another server's answer there is not believed, and no redirect is followed."""
    service.answers = {
        "PUT /latest/api/token": (200, "T0"),
        "GET /latest/meta-data/spot/instance-action": (answer if answer[0] != 200 else (500, "")),
        "GET /computeMetadata/v1/instance/preempted": answer,
        "GET /metadata/instance/compute/name": answer,
        "GET /metadata/scheduledevents": answer,
    }
    for cloud in (Amazon, Google, Azure):
        with contextlib.suppress(OSError, HTTPException, ValueError, LookupError):
            assert not cloud(MachineMetadata(service.url))()
    assert "GET /elsewhere" not in {asked for asked, _ in service.asked}


def test_nobody_is_asked_unless_a_setting_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The metadata service is an internal address: only the operator opens it."""
    monkeypatch.delenv("CRAWLSTREAM_NOTICE", raising=False)
    assert look_of(load_settings()) is None
    for kind, notice_s in {"aws": 120, "gcp": 30, "azure": 30, f"file:{tmp_path}/x": 30}.items():
        found = look_of(load_settings(notice=kind))
        assert found is not None
        assert found[1] == notice_s
    assert look_of(load_settings(notice="gcp", notice_s=55))[1] == 55  # type: ignore[index]


def test_a_file_is_a_notice_once_it_is_there(tmp_path: Path) -> None:
    """A program that watches the machine only has to make a file; an old file changes nothing."""
    path = tmp_path / "notice"
    found = look_of(load_settings(notice=f"file:{path}"))
    assert found is not None
    look, _ = found
    assert not look()
    path.touch()
    now = time.time()
    os.utime(path, (now - 60, now - 60))
    assert not look()
    os.utime(path, (now + 1, now + 1))
    assert look()


def test_a_function_of_ones_own_is_looked_up_by_its_name() -> None:
    """Another cloud is a function that answers yes or no."""
    found = look_of(load_settings(notice="os.sched_yield"))
    assert found is not None
    assert found[0]() is None


async def test_a_look_that_fails_is_repeated() -> None:
    """Repeats a failed look, whatever it raises, so that the watch does not end unnoticed."""
    looks = iter([AttributeError("a defect"), ValueError("no answer")])

    def look() -> bool:
        for error in looks:
            raise error
        return True

    watcher = Watcher(cast(Any, None), look, 30)
    assert [await watcher._is_announced() for _ in range(3)] == [False, False, True]


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("CRAWLSTREAM_NOTICE", "amazon"),
        ("CRAWLSTREAM_NOTICE", "file:"),
        ("CRAWLSTREAM_NOTICE_URL", "http://user@host"),
        ("CRAWLSTREAM_NOTICE_S", "-1"),
    ],
)
def test_a_wrong_setting_is_refused(name: str, wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuses a wrong setting at the start, not when the machine is about to end."""
    monkeypatch.setenv(name, wrong)
    with pytest.raises(ConfigError, match=name):
        load_settings()
