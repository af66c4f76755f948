"""Links of a page on their way into the frontier, as entries that are made when they are needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import cast, overload

from crawlstream.wire.stored import LinkEncoder


class EncodedLinks(Sequence[bytes]):
    """Entries of links, each encoded whenever it is looked at: most links never are.

    Links that the frontier knows are left out before that, by fingerprint.
    """

    __slots__ = ("_encoder", "_items")

    def __init__(
        self, items: Iterable[str | bytes] = (), encoder: LinkEncoder | None = None
    ) -> None:
        """URLs for the encoder, and entries."""
        self._items = list(items)
        self._encoder = encoder

    def append(self, entry: bytes) -> None:
        """Add an entry."""
        self._items.append(entry)

    def appender(self, encoder: LinkEncoder) -> Callable[[str], None]:
        """Return a function that adds a link by its URL; a second page's are encoded at once."""
        self._encoder = self._encoder or encoder
        if self._encoder is encoder:
            return self._items.append
        return lambda url: self._items.append(encoder.encode(url))

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[bytes]:
        return map(self._encoded, self._items)

    @overload
    def __getitem__(self, place: int) -> bytes: ...
    @overload
    def __getitem__(self, place: slice) -> EncodedLinks: ...
    def __getitem__(self, place: int | slice) -> bytes | EncodedLinks:
        if isinstance(place, slice):
            return EncodedLinks(self._items[place], self._encoder)
        return self._encoded(self._items[place])

    def _encoded(self, item: str | bytes) -> bytes:
        if isinstance(item, bytes) or self._encoder is None:
            return cast(bytes, item)
        return self._encoder.encode(item)
