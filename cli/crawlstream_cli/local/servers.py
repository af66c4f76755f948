"""Redis, ZooKeeper and Kafka on one machine: their configuration, and how each is started.

A server lives in a folder (``conf/``, ``data/``) and is started from there, so that no path of
the machine is ever spliced into a command line. All of them listen on 127.0.0.1 only.
"""

from __future__ import annotations

import os
import subprocess
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from crawlstream.errors import SetupError

_MIB = 1024 * 1024
_KAFKA_HEAP = "-Xms256m -Xmx512m -XX:+UseG1GC -XX:MaxGCPauseMillis=20"
_ZOOKEEPER_HEAP = "-Xms32m -Xmx128m -XX:+UseSerialGC"
_JVM = (
    "-Djava.awt.headless=true -Djava.net.preferIPv4Stack=true"
    # On one machine these servers mostly copy and unpack, which is native code: Java's second
    # compiler takes two seconds at each start, and saves nothing that could be measured.
    " -XX:TieredStopAtLevel=1"
)
_JVM_LOG = (
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    " -Dorg.slf4j.simpleLogger.showDateTime=true"
    " -Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd_HH:mm:ss.SSS"
)


QUIET = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")
"""Java does not report an archive of classes that it cannot use."""


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A configured server: run ``argv`` inside ``folder`` and it listens on ``port``."""

    name: str
    port: int
    argv: tuple[str, ...]
    folder: Path


def redis(
    folder: Path,
    *,
    port: int,
    max_memory: int | None = None,
    password: str | None = None,
    keeps_all: bool = False,
    name: str = "redis",
    partitions: int = 1,
) -> LocalServer:
    """Configure Redis: every write in its log within a second, nothing ever evicted.

    ``max_memory`` is in bytes, by default a quarter of the machine's, shared by ``partitions``
    servers; ``name`` is the name of its configuration and of its data. The password is only in the
    configuration, which its owner alone can read. ``keeps_all``: a write is on disk before its
    answer.
    """
    data = _data(folder, name)
    lines = (
        "bind 127.0.0.1",
        f"port {port}",
        "protected-mode yes",
        "tcp-backlog 128",
        "daemonize no",
        # Writing the title over the environment would hide whose server this is.
        "set-proc-title no",
        'logfile ""',
        f"dir {_redis_quoted(data)}",
        'save ""',
        "appendonly yes",
        f"appendfsync {'always' if keeps_all else 'everysec'}",
        "aof-load-truncated yes",
        "maxmemory-policy noeviction",
        f"maxmemory {max_memory or _machine_memory() // 4 // partitions}",
        *([f"requirepass {_redis_quoted(password)}"] if password else []),
    )
    _write(folder / "conf" / f"{name}.conf", lines)
    return LocalServer(name, port, ("redis-server", f"conf/{name}.conf"), folder)


def zookeeper(folder: Path, *, port: int, jars: Path) -> LocalServer:
    """Configure a single ZooKeeper without its admin web server."""
    settings = {
        "dataDir": _data(folder, "zookeeper"),
        "clientPort": port,
        "clientPortAddress": "127.0.0.1",
        "tickTime": 2000,
        "maxClientCnxns": 500,
        "admin.enableServer": "false",
        # The health check speaks these two words.
        "4lw.commands.whitelist": "ruok,srvr",
        "autopurge.snapRetainCount": 3,
        "autopurge.purgeInterval": 24,
    }
    _write(folder / "conf" / "zookeeper.properties", _properties(settings))
    _write(folder / "conf" / "zookeeper.jvm", _jvm(_ZOOKEEPER_HEAP, jars))
    main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
    argv = ("java", "@conf/zookeeper.jvm", main, "./conf/zookeeper.properties")
    return LocalServer("zookeeper", port, argv, folder)


def kafka(folder: Path, *, port: int, jars: Path, max_record_bytes: int = 8 * _MIB) -> LocalServer:
    """Configure a single Kafka node, its own controller on ``port + 1``; see `format_kafka`."""
    settings = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@127.0.0.1:{port + 1}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{port + 1}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": _data(folder, "kafka"),
        "auto.create.topics.enable": "false",
        "message.max.bytes": max_record_bytes,
        "replica.fetch.max.bytes": max_record_bytes,
        # Here one or two members join at once; waiting for more only delays the first record.
        "group.initial.rebalance.delay.ms": 0,
        # A broker that was killed may register again after this long, not after 9 s; one that is
        # held up for as long is fenced, and every group loses its coordinator.
        "broker.session.timeout.ms": 6000,
        "broker.heartbeat.interval.ms": 500,
        # No other controller waits for the empty records that would be written twice a second.
        "metadata.max.idle.interval.ms": 0,
        "offsets.topic.num.partitions": 4,
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.num.partitions": 4,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
        # The default of 128 MiB is a quarter of the heap.
        "log.cleaner.dedupe.buffer.size": 16 * _MIB,
    }
    _write(folder / "conf" / "kafka.properties", _properties(settings))
    _write(folder / "conf" / "kafka.jvm", (*_archived(jars), *_jvm(_KAFKA_HEAP, jars)))
    argv = ("java", "@conf/kafka.jvm", "kafka.Kafka", "conf/kafka.properties")
    return LocalServer("kafka", port, argv, folder)


def format_kafka(server: LocalServer) -> None:
    """Give a new Kafka its identity on disk, once; a format that was cut short is done again."""
    stamp = server.folder / "data" / "kafka.formatted"
    if stamp.exists():
        return
    identity = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "_")
    argv = ("java", "@conf/kafka.jvm", "kafka.tools.StorageTool")
    action = ("format", "--ignore-formatted", "-t", identity, "-c", "conf/kafka.properties")
    done = subprocess.run(
        [*argv, *action], cwd=server.folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise SetupError(f"cannot format Kafka's data directory: {' '.join(last)}")
    stamp.touch()


def _data(folder: Path, name: str) -> str:
    """Make the data folder of one server and name it absolutely."""
    path = folder.absolute() / "data" / name
    path.mkdir(parents=True, exist_ok=True)
    return str(path)


def _write(path: Path, lines: tuple[str, ...]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.chmod(0o600)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _redis_quoted(text: str) -> str:
    """Quote a text as redis.conf reads it."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _properties(settings: Mapping[str, object]) -> tuple[str, ...]:
    """Render a Java properties file; what is not ASCII is written by its UTF-16 units."""
    return tuple(f"{key}={_java_escaped(str(value))}" for key, value in settings.items())


def _java_escaped(text: str) -> str:
    units = text.replace("\\", "\\\\").encode("utf-16-be")
    chars = (int.from_bytes(units[i : i + 2], "big") for i in range(0, len(units), 2))
    return "".join(chr(unit) if unit < 0x7F else f"\\u{unit:04x}" for unit in chars)


def _jvm(heap: str, jars: Path) -> tuple[str, ...]:
    """Render a Java argument file."""
    return (*heap.split(), *_JVM.split(), *_JVM_LOG.split(), "-cp", _java_quoted(jars / "*"))


def class_archive(jars: Path) -> Path:
    """Return the archive of the classes that Kafka loads; see `crawlstream_cli.local.classes`."""
    return jars / "kafka.jsa"


def _archived(jars: Path) -> tuple[str, ...]:
    archive = class_archive(jars)
    return (f"-XX:SharedArchiveFile={_java_quoted(archive)}", *QUIET) if archive.exists() else ()


def _java_quoted(path: Path) -> str:
    """Quote a path as a Java argument file has it, so that blanks stay in it."""
    return '"' + str(path.absolute()).replace("\\", "\\\\").replace('"', '\\"') + '"'


def _machine_memory() -> int:
    """Bytes of memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
