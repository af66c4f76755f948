"""What came of a form, as the screen behind it says it.

A form without scripts leads on to a screen; that came of it stands in its address, as one of the
words below and a number, so that an address that a stranger made up can say nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode

from fastapi import Request

_SENTENCES: Mapping[str, str] = {
    "fed": "Fed: {}.",
    "replayed": "Replayed: {}.",
    "later": "Accepted; the reply takes longer. Reload to see what came of it.",
    "pause": "Paused.",
    "resume": "Resumed.",
    "stop": "Stopped: its queued pages are dropped.",
    "reprioritize": "The priority is changed.",
    "fire": "Fired.",
    "drain": "It drains: it finishes what is in flight, gives back the rest, and ends.",
    "set-rule": "The rule is set: it is in force, and shown, within a second or so.",
    "remove-rule": "The rule is removed.",
    "block": "Blocked.",
    "unblock": "Unblocked.",
}
_LONGEST_NUMBER = 9


def with_outcome(path: str, word: str, count: int | None = None) -> str:
    """The address of a screen that says so."""
    told = {"outcome": word} | ({} if count is None else {"count": str(count)})
    return f"{path}{'&' if '?' in path else '?'}{urlencode(told)}"


def outcome_of(request: Request) -> str:
    """The sentence that the address of a screen asks for; "" where there is none."""
    asked = request.query_params
    count = asked.get("count", "")
    is_number = count.isdecimal() and len(count) <= _LONGEST_NUMBER
    sentence = _SENTENCES.get(asked.get("outcome", ""), "")
    return sentence.format(f"{int(count):,}") if is_number else sentence.replace(": {}", "")
