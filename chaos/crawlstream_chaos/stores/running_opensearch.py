"""An OpenSearch to be killed and frozen: on a port of 127.0.0.1, with one node, without TLS.

It runs from the jars of ``opensearch/pom.xml``, which Maven fetches once.
"""

from __future__ import annotations

import http.client
import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from crawlstream.boot.local_note import repository
from crawlstream.errors import SetupError
from crawlstream_chaos.processes import RunningServer
from crawlstream_cli.local.ports import free_block
from crawlstream_cli.local.servers import LocalServer

_PARTS = Path(__file__).with_name("opensearch")
_FETCHED_S = 1200
_OF_NETTY = ("netty-", "transport-netty4-")
"""Jars of the module for HTTP, which must not be in the class path."""
_JVM = (
    *("-Xms256m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
    *("-Djava.security.manager=allow", "-Xlog:disable", "-Dlog4j2.disable.jmx=true"),
    # Without its native library it does not refuse to run as root, as in a container.
    *("-Djna.nosys=true", "-Djna.nounpack=true"),
)


class RunningOpenSearch(RunningServer):
    """An OpenSearch that keeps its port and its data."""

    def __init__(self, folder: Path) -> None:
        """``folder`` takes its data and its log. SetupError: its jars cannot be fetched."""
        jars = opensearch_jars()
        home, port = folder / "opensearch", free_block(2)
        _furnish(home, jars)
        path = [str(each) for each in jars.glob("*.jar") if not each.name.startswith(_OF_NETTY)]
        places = {"home": home, "conf": home / "config"}
        settings = {"http.port": port, "transport.port": port + 1}
        argv = (
            *("java", *_JVM, f"-Djava.io.tmpdir={home}"),
            *(f"-Dopensearch.path.{name}={place}" for name, place in places.items()),
            *("-cp", ":".join(path), "org.opensearch.bootstrap.OpenSearch"),
            *(f"-E{name}={value}" for name, value in settings.items()),
        )
        super().__init__(LocalServer("opensearch", port, argv, home))

    @property
    def url(self) -> str:
        """Return where it is."""
        return f"http://127.0.0.1:{self.port}"

    def answers(self) -> bool:
        """Return whether all shards can be written."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=1)
        try:
            connection.request("GET", "/_cluster/health")
            told = json.loads(connection.getresponse().read())
            return told["status"] in {"yellow", "green"}
        except (OSError, http.client.HTTPException, ValueError, KeyError):
            return False
        finally:
            connection.close()


@contextmanager
def opensearch() -> Iterator[RunningOpenSearch]:
    """Run an OpenSearch for the length of the block."""
    with tempfile.TemporaryDirectory(prefix="crawlstream-opensearch-") as folder:
        server = RunningOpenSearch(Path(folder))
        try:
            server.start()
            yield server
        finally:
            server.kill()


def opensearch_jars() -> Path:
    """Return the folder of its jars, fetched if the list has changed. SetupError."""
    folder = repository() / ".crawlstream" / "opensearch"
    pom = _PARTS / "pom.xml"
    stamp = folder / "pom.xml"
    if stamp.exists() and stamp.read_bytes() == pom.read_bytes():
        return folder
    folder.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="opensearch-") as made:
        _fetch(pom, Path(made) / "jars")
        shutil.copy(pom, Path(made) / "jars")
        shutil.rmtree(folder, ignore_errors=True)
        (Path(made) / "jars").rename(folder)
    return folder


def _furnish(home: Path, jars: Path) -> None:
    """Make the folder of a distribution, as far as the server needs one."""
    netty, config = home / "modules" / "netty", home / "config"
    shutil.copytree(_PARTS / "netty", netty, dirs_exist_ok=True)
    for jar in jars.glob("*.jar"):
        if jar.name.startswith(_OF_NETTY):
            shutil.copy(jar, netty)
    (core,) = jars.glob("opensearch-[0-9]*.jar")
    descriptor = netty / "plugin-descriptor.properties"
    version = core.stem.removeprefix("opensearch-")
    descriptor.write_text(descriptor.read_text().replace("VERSION", version))
    config.mkdir(exist_ok=True)
    for name in ("opensearch.yml", "log4j2.properties"):
        shutil.copy(_PARTS / name, config)


def _fetch(pom: Path, folder: Path) -> None:
    command = ("mvn", "-q", "-B", "-C", "-f", str(pom), "dependency:copy-dependencies")
    try:
        subprocess.run(
            [*command, "-DincludeScope=runtime", f"-DoutputDirectory={folder}"],
            check=True,
            capture_output=True,
            text=True,
            timeout=_FETCHED_S,
        )
    except FileNotFoundError as error:
        raise SetupError("mvn is not installed: it fetches OpenSearch") from error
    except subprocess.SubprocessError as error:
        why = str(getattr(error, "stdout", "") or error)[-2000:]
        raise SetupError(f"OpenSearch could not be fetched: {why}") from error
