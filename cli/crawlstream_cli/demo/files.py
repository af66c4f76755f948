"""Output of a pipeline: the pages in its files, with their number of copies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from pathlib import Path

from crawlstream.wire.delivered import decode


def stored_pages(folder: Path) -> Counter[str]:
    """Ids in all files of JSON lines below a folder."""
    files = folder.rglob("*.jsonl")
    lines = (line for file in files for line in file.read_bytes().splitlines())
    return Counter(decode(line).id for line in lines)


def differences(delivered: Collection[str], stored: Counter[str]) -> list[str]:
    """A sentence for each way in which the files do not have each delivered page once."""
    missing = len(set(delivered) - stored.keys())
    twice = sum(count > 1 for count in stored.values())
    strange = len(stored.keys() - set(delivered))
    told = {
        f"{missing} pages are missing in the files of the pipeline": missing,
        f"{twice} pages are in the files of the pipeline more than once": twice,
        f"{strange} pages in the files of the pipeline were not delivered": strange,
    }
    return [sentence for sentence, count in told.items() if count]
