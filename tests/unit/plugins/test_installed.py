"""Plugins that are installed: found by their entry points, and refused by a sentence."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from crawlstream.errors import ConfigError
from crawlstream.plugins.handlers import installed
from support.documented import install_example_plugin

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Installs the documented plugin, changed, as a package of a name."""
    packages: list[str] = []

    def install(
        package: str = "pinger", *, point: str = "ping", **changes: tuple[str, str]
    ) -> None:
        site = tmp_path / package
        install_example_plugin(site)
        info = (site / "pinger-1.dist-info").rename(site / f"{package}-1.dist-info")
        for path in (info / "METADATA", info / "entry_points.txt"):
            path.write_text(path.read_text().replace("pinger", package))
        points = (info / "entry_points.txt").read_text()
        (info / "entry_points.txt").write_text(points.replace("ping = ", f"{point} = "))
        code = (site / "pinger.py").read_text()
        for old, new in changes.values():
            code = code.replace(old, new)
        (site / f"{package}.py").write_text(code)
        monkeypatch.syspath_prepend(str(site))
        packages.append(package)

    yield install
    for package in packages:
        sys.modules.pop(package, None)
    importlib.invalidate_caches()


def test_a_plugin_is_found_by_the_name_of_both(install: Install) -> None:
    """Its entry point and its class bear the same one."""
    install()
    (handler,) = installed()
    assert (handler.name, handler.rank) == ("ping", 150)


def test_an_entry_point_of_another_name_is_refused(install: Install) -> None:
    """The sentence has the package, both names, and what to do."""
    install(point="pong")
    with pytest.raises(ConfigError) as raised:
        installed()
    assert str(raised.value) == (
        "the plugin 'pong' of crawlstream.requests (package pinger): its entry point is called"
        " 'pong', but pinger:PingHandler has the name 'ping'; make both the same"
    )


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("import json", "import no_such_module", "No module named 'no_such_module'"),
        ("PingHandler(Handler)", "PingHandler", "it is not a crawlstream.plugins.Handler"),
        ("class PingHandler", "class Other", "has no attribute 'PingHandler'"),
        ('"ping", 150', '"ping", "150"', "its rank must be an integer"),
        ("schema = Schema(", "schema = dict(", "its schema must be a crawlstream.plugins.Schema"),
        ('"type": "object"', '"type": "objekt"', "objekt"),
        ("async def handle", "async def handel", "abstract method"),
    ],
)
def test_a_plugin_that_cannot_be_loaded_is_refused(
    install: Install, old: str, new: str, problem: str
) -> None:
    """Refuses a plugin that cannot be loaded by a sentence that says which and why."""
    install(change=(old, new))
    with pytest.raises(ConfigError, match=r"package pinger.* cannot be loaded") as raised:
        installed()
    assert problem in str(raised.value)


def test_two_packages_with_a_plugin_of_one_name_are_refused(install: Install) -> None:
    """Which of them gets the records would be undefined."""
    install("pinger")
    install("ponger")
    told = r"two packages have a plugin .ping. .*: (pinger and ponger|ponger and pinger);"
    with pytest.raises(ConfigError, match=told):
        installed()


def test_kafka_monitor_ends_before_it_asks_a_server(tmp_path: Path) -> None:
    """Ends kafka-monitor with exit code 2 and the sentence, before any server is called."""
    install_example_plugin(tmp_path)
    points = tmp_path / "pinger-1.dist-info" / "entry_points.txt"
    points.write_text(points.read_text().replace("ping = pinger:PingH", "pong = pinger:PingH"))
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    ran = subprocess.run(
        [sys.executable, "-m", "kafka_monitor", "run"],
        env={**os.environ, "PYTHONPATH": path, "KAFKA_HOSTS": "127.0.0.1:1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 2
    assert ran.stderr.startswith("kafka-monitor: the plugin 'pong' of crawlstream.requests")
    assert "Traceback" not in ran.stderr
