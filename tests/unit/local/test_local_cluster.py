"""A cluster of one machine on paper: its folder, its ports, its variables, its watch."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from crawlstream.boot.local_note import write_note
from crawlstream.boot.settings import load_settings
from crawlstream.errors import ConfigError, SetupError
from crawlstream_cli.local.cluster import LocalCluster, adopt_running_cluster
from crawlstream_cli.local.health_listener import SILENCES, START_S, SilenceWatch
from crawlstream_cli.local.home import Home, find_jars
from crawlstream_cli.local.layout import LocalLayout
from crawlstream_cli.local.ports import Ports, free_block, is_free
from crawlstream_cli.local.servers import _properties, _redis_quoted
from crawlstream_cli.local.supervisor import ProcessInfo


def _layout(given: Mapping[str, str]) -> LocalLayout:
    return LocalLayout(home=Home(Path("/home/of/it")), ports=Ports.given(given), given=given)


def test_a_local_cluster_tells_its_clients_where_it_is() -> None:
    """Settings read from the cluster's environment lead to the ports that were chosen."""
    layout = _layout({"CRAWLSTREAM_KAFKA_PORT": "19092", "CRAWLSTREAM_REDIS_PORT": "16379"})
    settings = load_settings(**layout.environment())
    assert settings.kafka_hosts == ("127.0.0.1:19092",)
    assert settings.zookeeper_hosts == ("127.0.0.1:2181",)
    assert (settings.redis_host, settings.redis_port) == ("127.0.0.1", 16379)


def test_servers_that_are_named_are_not_started() -> None:
    """Each server that the environment names is used where it is, the others run here."""
    layout = _layout({"KAFKA_HOSTS": "kafka-1:9092", "REDIS_HOST": "redis", "REDIS_PORT": "7000"})
    environment = layout.environment()
    assert layout.local == {"zookeeper"}
    assert environment["KAFKA_HOSTS"] == "kafka-1:9092"
    assert (environment["REDIS_HOST"], environment["REDIS_PORT"]) == ("redis", "7000")
    assert environment["CRAWLSTREAM_LOCAL_KAFKA"] == "0"
    assert environment["CRAWLSTREAM_LOCAL_ZOOKEEPER"] == "1"


def test_paths_mean_the_same_in_every_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys, certificates and folders of modules are those of the folder where `up` is typed."""
    monkeypatch.chdir(tmp_path)
    given = {
        "CRAWLSTREAM_SIGNING_KEYS": "a.pem, /run/b.pem",
        "CRAWLSTREAM_SIGNING_DIRECTORY": "directory.json",
        "CRAWLSTREAM_KAFKA_SSL_CAFILE": "ca.pem",
        "CRAWLSTREAM_REDIS_SSL_KEYFILE": "",
        "PYTHONPATH": f"modules{os.pathsep}{os.pathsep}/more",
    }
    told = LocalCluster(tmp_path, ports=Ports.free(), env=given).environment()
    assert {name: told[name] for name in given} == {
        "CRAWLSTREAM_SIGNING_KEYS": f"{tmp_path}/a.pem,/run/b.pem",
        "CRAWLSTREAM_SIGNING_DIRECTORY": f"{tmp_path}/directory.json",
        "CRAWLSTREAM_KAFKA_SSL_CAFILE": f"{tmp_path}/ca.pem",
        "CRAWLSTREAM_REDIS_SSL_KEYFILE": "",
        "PYTHONPATH": f"{tmp_path}/modules{os.pathsep}/more",
    }


@pytest.mark.parametrize("text", ["http", "0", "65001", "-1", "٣"])
def test_a_port_that_is_none_names_its_variable(text: str) -> None:
    """A value that is not a port is refused with the name of the variable."""
    with pytest.raises(ConfigError, match="CRAWLSTREAM_REDIS_PORT"):
        Ports.given({"CRAWLSTREAM_REDIS_PORT": text})


def test_a_second_start_names_the_first(tmp_path: Path) -> None:
    """Names the process of the first start, and the command that shows its progress."""
    first, second = (LocalCluster(tmp_path, env={}) for _ in range(2))
    first.home.prepare()
    with (
        first._locked(),
        pytest.raises(SetupError, match=rf"command \(pid {os.getpid()}\) is starting.*status"),
        second._locked(),
    ):
        pytest.fail("two commands held the lock")
    with second._locked():
        assert (tmp_path / "run" / "lock").read_text() == str(os.getpid())


@pytest.mark.parametrize("mark", [",", ":", "\n"])
def test_homes_that_kafka_cannot_bear_are_refused(tmp_path: Path, mark: str) -> None:
    """A comma would be two log folders, a colon two class paths."""
    with pytest.raises(SetupError, match="CRAWLSTREAM_HOME"):
        Home(tmp_path / f"a{mark}b").prepare()
    assert not (tmp_path / f"a{mark}b").exists()


def test_a_home_that_cannot_be_made_is_one_sentence() -> None:
    """A place where nothing can be written is refused with its remedy."""
    with pytest.raises(SetupError, match="set CRAWLSTREAM_HOME to a writable directory"):
        Home(Path("/proc/nowhere")).prepare()


def test_a_full_disk_is_told_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Less than 1 GiB of free disk is refused, in MiB."""
    usage = shutil.disk_usage(tmp_path)._replace(free=300 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage)
    with pytest.raises(SetupError, match="300 MiB of free disk space, but a cluster needs 1024"):
        Home(tmp_path / "home").prepare()


def test_the_socket_of_a_long_home_is_short_and_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unix sockets have short names only; a long home's is elsewhere, for its owner alone."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    homes = [Home(tmp_path / ("x" * 100) / name) for name in ("a", "b")]
    for home in homes:
        home.prepare()
        assert home.socket.parent.parent == tmp_path
        assert home.socket.parent.stat().st_mode & 0o777 == 0o700
    assert homes[0].socket != homes[1].socket
    for home in homes:
        home.clear_up()
        assert not home.socket.parent.exists()
    assert Home(Path("/short")).socket == Path("/short/run/supervisor.sock")


def test_paths_survive_the_servers_languages() -> None:
    """Quotes, backslashes and other alphabets are written as each configuration reads them."""
    assert _redis_quoted('/a "b"\\c') == '"/a \\"b\\"\\\\c"'
    assert _properties({"log.dirs": "/ä\\x y"}) == ("log.dirs=/\\u00e4\\\\x y",)
    assert _properties({"dataDir": "/𝄞"}) == ("dataDir=/\\ud834\\udd1e",)


def _process(uptime_s: float = 1, pid: int = 7) -> ProcessInfo:
    return ProcessInfo("kafka", "kafka", pid, "RUNNING", uptime_s, 0)


def test_what_was_up_and_falls_silent_is_dead() -> None:
    """A lost answer kills no process, several in a row do, and an answer in between resets it."""
    answers = iter([True, False, False, True, *[False] * SILENCES])
    watch = SilenceWatch(lambda _process: next(answers))
    verdicts = [bool(watch.dead([_process()])) for _ in range(4 + SILENCES)]
    assert verdicts == [False] * (3 + SILENCES) + [True]


def test_what_starts_is_given_time() -> None:
    """A server that recovers its data is not killed for its silence, until far too long."""
    watch = SilenceWatch(lambda _process: False)
    assert not any(watch.dead([_process(uptime_s=n * 5)]) for n in range(START_S // 5))
    assert watch.dead([_process(uptime_s=START_S + 1)])


def test_a_new_start_is_judged_anew() -> None:
    """Silences of the former process do not count against its successor."""
    answers = iter([True, *[False] * (2 * SILENCES)])
    watch = SilenceWatch(lambda _process: next(answers))
    for _ in range(SILENCES):
        assert not watch.dead([_process(pid=7)])
    for _ in range(SILENCES):
        assert not watch.dead([_process(pid=8)])


def test_what_does_not_run_is_not_asked() -> None:
    """A process that supervisor is starting or stopping is left in peace."""

    def ask(_process: ProcessInfo) -> bool:
        raise AssertionError

    stopping = replace(_process(), state="STOPPING")
    assert not SilenceWatch(ask).dead([stopping])


def test_java_of_java_home_comes_first() -> None:
    """Servers run on the Java that the user has named, crawlstream's processes on this Python."""
    path = _layout({"JAVA_HOME": "/opt/jdk", "PATH": "/usr/bin"}).environment()["PATH"]
    _python, java, *rest = path.split(os.pathsep)
    assert java == "/opt/jdk/bin"
    assert rest == ["/usr/bin"]


def test_a_missing_program_is_named_with_its_remedy() -> None:
    """Names a missing program, such as Java, and the alternatives."""
    given = {"PATH": "/nowhere", "REDIS_HOST": "somewhere", **_free_ports()}
    with pytest.raises(SetupError, match=r"java is not installed, but kafka needs it.*KAFKA_HOSTS"):
        _layout(given).check()


def _free_ports() -> dict[str, str]:
    return replace(Ports.free(), metrics=free_block(40)).variables()


def test_a_cluster_within_the_home_finds_the_jars_of_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bootstrap script put them into CRAWLSTREAM_HOME; the demo's own folder is below it."""
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "kafka_2.13-4.0.jar").touch()
    monkeypatch.delenv("CRAWLSTREAM_JARS", raising=False)
    monkeypatch.setenv("CRAWLSTREAM_HOME", str(tmp_path))
    assert find_jars(Home(tmp_path / "demo")) == tmp_path / "jars"


def test_a_home_is_its_owners_alone(tmp_path: Path) -> None:
    """Folders of an earlier version are closed too; the password is made once, and is private."""
    home = Home(tmp_path / "home")
    for folder in (home.run, home.data, home.results):
        folder.mkdir(mode=0o755, parents=True)
    home.prepare()
    home.ensure_redis_password()
    password = home.redis_password
    home.ensure_redis_password()
    assert password == home.redis_password
    assert len(password or "") > 40
    folders = (home.conf, home.data, home.logs, home.run, home.results)
    assert {folder.stat().st_mode & 0o777 for folder in folders} == {0o700}
    assert {file.stat().st_mode & 0o777 for file in home.conf.iterdir()} == {0o600}


def test_the_password_of_one_redis_is_never_shown_to_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands find the cluster of the home; a user who names another Redis does not."""
    for name in ("REDIS_HOST", "REDIS_PORT", "REDIS_PASSWORD"):
        monkeypatch.delenv(name, raising=False)
    cluster = LocalCluster(tmp_path, ports=Ports(redis=7000), env={})
    cluster.home.prepare()
    cluster.home.ensure_redis_password()
    write_note(tmp_path, cluster.client_settings)
    monkeypatch.setenv("CRAWLSTREAM_HOME", str(tmp_path))
    for other in ({"REDIS_HOST": "redis.example"}, {"REDIS_PORT": "7001"}, {}):
        with monkeypatch.context() as changed:
            changed.setattr(os, "environ", {**os.environ, **other})
            adopt_running_cluster()
            known = os.environ.get("REDIS_PASSWORD")
            assert known == (None if other else cluster.home.redis_password)
    assert "REDIS_PASSWORD" not in cluster.addresses
    assert not (tmp_path / "run" / "cluster.json").stat().st_mode & 0o077


def test_a_server_of_this_machine_is_not_asked_for_proofs() -> None:
    """Setting them means a server elsewhere, and the error says how to name it."""
    given = {"REDIS_TLS": "true"}
    with pytest.raises(SetupError, match="REDIS_HOST"):
        _layout(given).check_access(load_settings(**given))
    _layout({**given, "REDIS_HOST": "redis"}).check_access(load_settings(**given))


def test_what_is_left_of_a_connection_does_not_keep_a_port() -> None:
    """TIME_WAIT of another address is free; a server that listens on any address is not."""
    server = socket.create_server(("127.0.0.9", 0), reuse_port=False)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
    port = server.getsockname()[1]
    visitor = socket.create_connection(("127.0.0.9", port))
    talk, _ = server.accept()
    assert not is_free(port)
    server.close()
    talk.close()
    assert visitor.recv(1) == b""
    visitor.close()
    assert is_free(port)
