"""Read the node, and change it by compare-and-set; calls block, so they run on a thread."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from kazoo.exceptions import (
    AuthFailedError,
    BadVersionError,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
)
from kazoo.handlers.threading import KazooTimeoutError

from crawlstream.errors import BadTable, Conflict, ZooKeeperUnavailable
from crawlstream.zoo.client import close_client, make_client
from crawlstream.zoo.document import Document, read_document, write_document

DEADLINE_S = 4.5
"""Maximum time that ZooKeeper may take in one edit or read; local work does not count."""

MAX_TRIES = 20
"""Maximum attempts. Each lost race is the success of another editor, so 20 mean many editors."""

_CONNECT_TIMEOUT_S = 3.0
_PAUSE_S = 0.02


Table = TypeVar("Table")
Made_co = TypeVar("Made_co", covariant=True)


class TableOf(Protocol[Made_co]):
    """Converts a document to a table; raises BadTable if it is invalid."""

    def __call__(self, document: Document, czxid: int, mzxid: int) -> Made_co:
        """Return the table in ``document`` at one version of the node."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Node(Generic[Table]):
    """Node that contains a table, and the function that reads it."""

    path: str
    table_of: TableOf[Table]
    what: str
    """Name of its content for people, in the plural: ``throttle rules``."""
    event: str
    """Value of ``event`` in its log lines."""
    is_secret: bool = False
    """True if errors must not repeat its content."""

    def document(self, data: bytes) -> Document:
        """Return the document in the node's bytes; raise BadTable with the problem."""
        return read_document(data, is_secret=self.is_secret)

    def parse(self, data: bytes, czxid: int, mzxid: int) -> Table:
        """Return the table in the node's bytes; raise BadTable with the problem."""
        return self.table_of(self.document(data), czxid, mzxid)


def read_node(hosts: Sequence[str], node: Node[Table]) -> Table:
    """Return the current table in the node."""
    with _session(hosts, node.what) as session:
        data, stat = session.read(node.path)
        if stat is None:
            raise BadTable(f"there are no {node.what} yet: ZooKeeper has no node {node.path}")
        return node.parse(data, stat.czxid, stat.mzxid)


def change_node(
    hosts: Sequence[str],
    node: Node[Table],
    edit: Callable[[Document], None],
    *,
    fresh: Callable[[], Document],
) -> Table:
    """Apply ``edit`` to the document in the node, or to a ``fresh`` one if there never was one.

    Write only if the edit changed the document. Raise Conflict after twenty lost races.
    """
    with _session(hosts, node.what) as session:
        for tries in range(MAX_TRIES):
            table = _try_change(session, node, edit, fresh=fresh)
            if table is not None:
                return table
            time.sleep(random.uniform(0, _PAUSE_S * tries))  # noqa: S311  spreads the editors
    raise Conflict(f"{node.path} was changed by others at each attempt: try again")


def _try_change(
    session: _Session,
    node: Node[Table],
    edit: Callable[[Document], None],
    *,
    fresh: Callable[[], Document],
) -> Table | None:
    """Try once; return None if another client was faster."""
    data, stat = session.read(node.path)
    is_new = stat is None or (not data and stat.version == 0)
    document = fresh() if is_new else node.document(data)
    before = None if is_new else deepcopy(document)
    edit(document)
    node.table_of(document, 0, 0)
    if document != before:
        stat = session.write(node.path, write_document(document), stat)
    return None if stat is None else node.table_of(document, stat.czxid, stat.mzxid)


class _Session:
    """Calls of one client, which wait for at most ``DEADLINE_S`` in total."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._left_s = DEADLINE_S

    def connect(self) -> None:
        """Wait for the connection, but not for the end of a failed attempt as ``start`` does."""
        if not self._client.start_async().wait(_CONNECT_TIMEOUT_S):
            raise KazooTimeoutError("no connection")

    def read(self, path: str) -> tuple[bytes, Any]:
        """Return data and stat of the node; stat is None if the node does not exist."""
        try:
            data, stat = self._wait(self._client.get_async(path))
        except NoNodeError:
            return b"", None
        return data, stat

    def write(self, path: str, data: bytes, over: Any) -> Any:
        """Replace the version ``over`` (None: create); return stat, or None if it has changed."""
        try:
            if over is not None:
                return self._wait(self._client.set_async(path, data, over.version))
            self._wait(self._client.create_async(path, data, makepath=True))
        except (BadVersionError, NoNodeError, NodeExistsError):
            return None
        return self.read(path)[1]

    def _wait(self, answer: Any) -> Any:
        began = time.monotonic()
        try:
            return answer.get(timeout=max(0.0, self._left_s))
        finally:
            self._left_s -= time.monotonic() - began


@contextmanager
def _session(hosts: Sequence[str], what: str) -> Iterator[_Session]:
    client = make_client(hosts)
    close = close_client
    try:
        session = _Session(client)
        session.connect()
        yield session
    except (KazooException, KazooTimeoutError) as error:
        close = _close_in_background
        raise ZooKeeperUnavailable(_unanswered(hosts, what, error)) from error
    finally:
        close(client)


def _unanswered(hosts: Sequence[str], what: str, error: Exception) -> str:
    """Return the error as a sentence; a timeout of the client adds no information to it."""
    if isinstance(error, (NoAuthError, AuthFailedError)):
        return (
            f"ZooKeeper at {', '.join(hosts)} denies access to the {what}: set"
            " CRAWLSTREAM_ZOOKEEPER_USERNAME and CRAWLSTREAM_ZOOKEEPER_PASSWORD to the user"
            " that owns the nodes"
        )
    why = "" if isinstance(error, KazooTimeoutError) else f": {error!r}"
    return f"ZooKeeper does not answer at {', '.join(hosts)}{why}"


def _close_in_background(client: Any) -> None:
    """Close a client without waiting for a server that does not answer."""
    threading.Thread(
        target=close_client, args=(client,), name="zookeeper-close", daemon=True
    ).start()
