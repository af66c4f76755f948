"""Proxies for the crawler's tests: one that misbehaves on demand, and real ones."""

from __future__ import annotations

import base64
import os
import shutil
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from crawlstream.egress.parse import node_of
from crawlstream.model.egress.pools import PoolTable
from crawlstream_chaos.processes import Program
from crawlstream_cli.local.ports import free_block


def pools(text: str, mzxid: int = 1) -> PoolTable:
    """A table of pools, as the node's YAML has it."""
    return node_of("/proxies").parse(text.encode(), 1, mzxid)


class SmallProxy:
    """CONNECT, whole URLs and SOCKS5 on one port; ``mood`` says what it does instead of its work.

    A number is the status, or the SOCKS reply, that it refuses with; ``mute`` says nothing,
    ``close`` closes, ``noise`` sends bytes of no protocol, ``late`` closes once the tunnel is used.
    """

    def __init__(
        self, mood: int | str = "", *, user: str = "", password: str = "", host: str = "127.0.0.1"
    ) -> None:
        self.mood = mood
        self.user = user
        self.password = password
        self.asked: list[str] = []
        """Targets as they were asked for, in order: ``host:port``, or whole URLs."""
        self.users: list[str] = []
        """User names of the clients, once a connection."""
        self._open: set[socket.socket] = set()
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, 0), family=family, backlog=128)
        self.port: int = self._listener.getsockname()[1]
        self.url = f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"
        """For the table; with a scheme before it."""

    def serve(self) -> None:
        """Serve until closed."""
        while True:
            try:
                visitor, _ = self._listener.accept()
            except OSError:
                return
            self._open.add(visitor)
            threading.Thread(target=self._talk, args=(visitor,), daemon=True).start()

    def close(self) -> None:
        """End at once, as a proxy that is killed."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.drop()

    def drop(self) -> None:
        """Break all connections off."""
        for each in list(self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _talk(self, visitor: socket.socket) -> None:
        with visitor, suppress(OSError, IndexError, ValueError):
            self._serve(visitor)
        self._open.discard(visitor)

    def _serve(self, visitor: socket.socket) -> None:
        if self.mood == "mute":
            visitor.recv(1)
            while visitor.recv(4096):
                pass
        if self.mood == "noise":
            visitor.sendall(b"\x00\x01 SSH-2.0-nothing of the kind\r\n\r\n")
        if self.mood in {"mute", "close", "noise"}:
            return
        first = visitor.recv(1)
        if first == b"\x05":
            self._socks(visitor)
        elif first:
            self._http(visitor, first)

    def _http(self, visitor: socket.socket, head: bytes) -> None:
        while not head.endswith(b"\r\n\r\n"):
            head += _exactly(visitor, 1)
        method, target, _ = head.split(b" ", 2)
        self.asked.append(target.decode())
        if not self._lets_in(head):
            visitor.sendall(
                b"HTTP/1.1 407 No\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n"
            )
        elif isinstance(self.mood, int):
            own = b"Proxy-Status: small; error=proxy_internal_error\r\n"
            visitor.sendall(b"HTTP/1.1 %d No\r\n%bContent-Length: 0\r\n\r\n" % (self.mood, own))
        elif method == b"CONNECT":
            host, _, port = target.decode().rpartition(":")
            yes = b"HTTP/1.1 200 Connection established\r\nX-Mine: yes\r\n\r\n"
            no = b"HTTP/1.1 502 No\r\nContent-Length: 0\r\n\r\n"
            self._tunnel(visitor, (host.strip("[]"), int(port)), yes, no)
        else:
            self._forward(visitor, target.decode(), head)

    def _lets_in(self, head: bytes) -> bool:
        if not self.user:
            return True
        sign = b"proxy-authorization: basic "
        lines = [line for line in head.split(b"\r\n") if line.lower().startswith(sign)]
        said = base64.b64decode(lines[0].split()[-1]).decode() if lines else ":"
        self.users.append(said.partition(":")[0])
        return self.user == "*" or said == f"{self.user}:{self.password}"

    def _forward(self, visitor: socket.socket, url: str, head: bytes) -> None:
        """A request for a whole URL; closes behind the answer."""
        parts = urlsplit(url)
        kept = [
            line
            for line in head.split(b"\r\n")[1:]
            if not line.lower().startswith((b"proxy-", b"connection"))
        ]
        first = f"GET {parts.path or '/'} HTTP/1.1\r\nConnection: close\r\n".encode()
        with socket.create_connection((parts.hostname, parts.port or 80)) as site:
            site.sendall(first + b"\r\n".join(kept))
            while data := site.recv(65536):
                visitor.sendall(data)

    def _socks(self, visitor: socket.socket) -> None:
        methods = _exactly(visitor, _exactly(visitor, 1)[0])
        wanted = 2 if self.user else 0
        if wanted not in methods:
            visitor.sendall(b"\x05\xff")
            return
        visitor.sendall(bytes((5, wanted)))
        if self.user and not self._socks_lets_in(visitor):
            return
        host = _socks_host(visitor, _exactly(visitor, 4)[3])
        (port,) = struct.unpack("!H", _exactly(visitor, 2))
        self.asked.append(f"{host}:{port}")
        if isinstance(self.mood, int):
            visitor.sendall(bytes((5, self.mood % 256, 0, 1)) + bytes(6))
            return
        yes, no = b"\x05\0\0\x01" + bytes(6), b"\x05\x05\0\x01" + bytes(6)
        self._tunnel(visitor, (host, port), yes, no)

    def _socks_lets_in(self, visitor: socket.socket) -> bool:
        _exactly(visitor, 1)
        user, password = (
            _exactly(visitor, _exactly(visitor, 1)[0]).decode() for _ in ("user", "password")
        )
        self.users.append(user)
        is_right = (user, password) == (self.user, self.password)
        visitor.sendall(bytes((1, not is_right)))
        return is_right

    def _tunnel(
        self, visitor: socket.socket, target: tuple[str, int], yes: bytes, no: bytes
    ) -> None:
        try:
            site = socket.create_connection(target, 5)
        except OSError:
            visitor.sendall(no)
            return
        with site:
            self._open.add(site)
            visitor.sendall(yes)
            if self.mood == "late":
                visitor.recv(1)
                return
            back = threading.Thread(target=_copy, args=(site, visitor), daemon=True)
            back.start()
            _copy(visitor, site)
            back.join()
        self._open.discard(site)


def _exactly(visitor: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        if not (part := visitor.recv(size - len(data))):
            raise ConnectionError
        data += part
    return data


def _socks_host(visitor: socket.socket, kind: int) -> str:
    if kind == 3:
        return _exactly(visitor, _exactly(visitor, 1)[0]).decode()
    family, size = (socket.AF_INET, 4) if kind == 1 else (socket.AF_INET6, 16)
    return socket.inet_ntop(family, _exactly(visitor, size))


def _copy(one: socket.socket, other: socket.socket) -> None:
    with suppress(OSError):
        while data := one.recv(65536):
            other.sendall(data)
    for each in (one, other):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


@contextmanager
def small_proxy(
    mood: int | str = "", *, user: str = "", password: str = "", host: str = "127.0.0.1"
) -> Iterator[SmallProxy]:
    """Run a proxy for the length of the block."""
    proxy = SmallProxy(mood, user=user, password=password, host=host)
    thread = threading.Thread(target=proxy.serve, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.close()
        thread.join(5)


def dead_port() -> int:
    """A port of this machine at which no process listens."""
    return free_block(1)


@dataclass(frozen=True, slots=True)
class RealProxy:
    """A proxy server from Debian."""

    url: str
    log: Path
    program: Program


@contextmanager
def tinyproxy(
    folder: Path, *, user: str = "", password: str = "", tunnels_to: Iterable[int] = ()
) -> Iterator[RealProxy]:
    """Run a tinyproxy for the length of the block; ``tunnels_to``: these ports only."""
    port, log = free_block(1), folder / "tinyproxy.log"
    config = folder / "tinyproxy.conf"
    login = f"BasicAuth {user} {password}\n" if user else ""
    config.write_text(
        f'Port {port}\nListen 127.0.0.1\nTimeout 60\nMaxClients 50\nLogFile "{log}"\n'
        f"LogLevel Connect\n{login}" + "".join(f"ConnectPort {each}\n" for each in tunnels_to)
    )
    program = Program(_found("tinyproxy"), "-d", "-c", str(config), env={}, log=folder / "out.log")
    with _answering(program, port):
        yield RealProxy(f"http://{_login(user, password)}127.0.0.1:{port}", log, program)


@contextmanager
def dante(folder: Path, *, blocked: str = "", method: str = "none") -> Iterator[RealProxy]:
    """Run a Dante for the length of the block, which does not go to ``blocked``."""
    port, log = free_block(1), folder / "danted.log"
    config = folder / "danted.conf"
    config.write_text(
        f"logoutput: {log}\ninternal: 127.0.0.1 port = {port}\nexternal: lo\n"
        f"clientmethod: none\nsocksmethod: {method}\nuser.privileged: root\n"
        "user.unprivileged: root\nclient pass { from: 0.0.0.0/0 to: 0.0.0.0/0 }\n"
        + (f"socks block {{ from: 0.0.0.0/0 to: {blocked}/32 }}\n" if blocked else "")
        + "socks pass { from: 0.0.0.0/0 to: 0.0.0.0/0 log: connect }\n"
    )
    pid = str(folder / "danted.pid")
    argv = (_found("danted", "sockd"), "-f", str(config), "-p", pid)
    program = Program(*argv, env={}, log=folder / "out.log")
    with _answering(program, port):
        yield RealProxy(f"socks5://127.0.0.1:{port}", log, program)


_SQUID = """\
http_port 127.0.0.1:{port}
http_port [::1]:{port}
{login}acl tunnels port {tunnels}
http_access deny CONNECT !tunnels
http_access allow {who}
cache deny all
access_log stdio:{log}
cache_log {folder}/cache.log
pid_filename none
coredump_dir {folder}
shutdown_lifetime 0 seconds
"""
_LOGINS = """\
auth_param basic program /usr/lib/squid/basic_ncsa_auth {folder}/passwords
acl known proxy_auth REQUIRED
"""


@contextmanager
def squid(
    *, user: str = "", password: str = "", tunnels_to: Iterable[int] = (443,)
) -> Iterator[RealProxy]:
    """Run a Squid for the length of the block; ``tunnels_to``: these ports only."""
    port = free_block(1)
    with TemporaryDirectory() as name:
        folder, log = Path(name), Path(name) / "access.log"
        # Started by root it becomes another user, who has to write here.
        folder.chmod(0o777)
        if user:
            told = subprocess.run(
                ["openssl", "passwd", "-apr1", password], capture_output=True, text=True, check=True
            )
            (folder / "passwords").write_text(f"{user}:{told.stdout}")
        config = _SQUID.format(
            port=port,
            folder=folder,
            log=log,
            login=_LOGINS.format(folder=folder) if user else "",
            who="known" if user else "all",
            tunnels=" ".join(map(str, tunnels_to)),
        )
        (folder / "squid.conf").write_text(config)
        argv = (_found("squid"), "-N", "-f", str(folder / "squid.conf"))
        program = Program(*argv, env={}, log=folder / "out.log")
        with _answering(program, port):
            yield RealProxy(f"http://{_login(user, password)}127.0.0.1:{port}", log, program)


def _login(user: str, password: str) -> str:
    return f"{user}:{password}@" if user else ""


def _found(*names: str) -> str:
    where = f"{os.environ.get('PATH', '')}:/usr/sbin"
    paths = [path for name in names if (path := shutil.which(name, path=where))]
    assert paths, f"{names[0]} is missing: `./crawlstream test` installs it"
    return paths[0]


@contextmanager
def _answering(program: Program, port: int) -> Iterator[None]:
    with program.running():
        _wait_for(port)
        yield


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 0.2):
            return
        time.sleep(0.02)
    raise AssertionError(f"nobody listens at {port}")
