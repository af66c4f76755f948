"""The node's bytes, read and changed by compare-and-set; blocks, so it runs on a thread."""

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
from crawlstream.zoo.connect import close_client, make_client
from crawlstream.zoo.document import Document, read_document, write_document

DEADLINE_S = 4.5
"""What ZooKeeper may take for one edit or reading in all; our own work with it does not count."""

MAX_TRIES = 20
"""Each lost race is another's success, so many tries mean many editors, not bad luck."""

_CONNECT_TIMEOUT_S = 3.0
_PAUSE_S = 0.02


Table = TypeVar("Table")
Made_co = TypeVar("Made_co", covariant=True)


class TableOf(Protocol[Made_co]):
    """Validates a document; BadTable if it is no table."""

    def __call__(self, document: Document, czxid: int, mzxid: int) -> Made_co:
        """The table in ``document`` at one version of the node."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Node(Generic[Table]):
    """A node that holds a table, and how the table is read from it."""

    path: str
    table_of: TableOf[Table]
    what: str
    """What people call its content, in the plural: ``throttle rules``."""
    event: str
    """The ``event`` of what is logged about it."""
    is_secret: bool = False
    """Whether errors must not repeat what stands in it."""

    def document(self, data: bytes) -> Document:
        """The node's bytes, read; BadTable says what is wrong with them."""
        return read_document(data, is_secret=self.is_secret)

    def parse(self, data: bytes, czxid: int, mzxid: int) -> Table:
        """The table in the node's bytes; BadTable says what is wrong with them."""
        return self.table_of(self.document(data), czxid, mzxid)


def read_node(hosts: Sequence[str], node: Node[Table]) -> Table:
    """The table in the node now."""
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
    """Apply ``edit`` to the document in the node, or to a ``fresh`` one where none ever was.

    What the edit leaves as it was is not written. Conflict after twenty lost races.
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
    """One round; None if somebody else was faster."""
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
    """Calls of one client, which wait for ``DEADLINE_S`` in all."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._left_s = DEADLINE_S

    def connect(self) -> None:
        """Wait for the connection, and not, as kazoo's ``start`` does, for its failure to end."""
        if not self._client.start_async().wait(_CONNECT_TIMEOUT_S):
            raise KazooTimeoutError("no connection")

    def read(self, path: str) -> tuple[bytes, Any]:
        """Data and stat of the node; stat None if there is none."""
        try:
            data, stat = self._wait(self._client.get_async(path))
        except NoNodeError:
            return b"", None
        return data, stat

    def write(self, path: str, data: bytes, over: Any) -> Any:
        """Write over the version ``over`` (None: create); stat, or None if it is another by now."""
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
    """One sentence; that time ran out is all that the client knows, and says nothing new."""
    if isinstance(error, (NoAuthError, AuthFailedError)):
        return (
            f"ZooKeeper at {', '.join(hosts)} denies access to the {what}: set"
            " CRAWLSTREAM_ZOOKEEPER_USERNAME and CRAWLSTREAM_ZOOKEEPER_PASSWORD to the user"
            " that owns the nodes"
        )
    why = "" if isinstance(error, KazooTimeoutError) else f": {error!r}"
    return f"ZooKeeper does not answer at {', '.join(hosts)}{why}"


def _close_in_background(client: Any) -> None:
    """A server that does not answer is not waited for when it is left, either."""
    threading.Thread(
        target=close_client, args=(client,), name="zookeeper-close", daemon=True
    ).start()
