"""The outcome of a form, as a sentence on the screen that follows.

A form without scripts redirects to a screen with the outcome in its address: one of the words
below and a number, so that an address made up by an attacker can show no other text.
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
    "fire-skipped": "Skipped: a firing that was requested before is still pending.",
    "drain": "It drains: it finishes what is in flight, gives back the rest, and ends.",
    "set-rule": "The rule is set: it is in force, and shown, within a second or so.",
    "remove-rule": "The rule is removed.",
    "block": "Blocked.",
    "unblock": "Unblocked.",
    "ban": "Banned: no page is fetched through it, within a second or so.",
    "unban": "The ban is lifted.",
    "adopt": "The purse pays.",
}
_LONGEST_NUMBER = 9


def with_outcome(path: str, word: str, count: int | None = None) -> str:
    """Return the address of a screen with the outcome."""
    told = {"outcome": word} | ({} if count is None else {"count": str(count)})
    return f"{path}{'&' if '?' in path else '?'}{urlencode(told)}"


def outcome_of(request: Request) -> str:
    """Return the sentence for the outcome in the address of a screen; "" if there is none."""
    asked = request.query_params
    count = asked.get("count", "")
    is_number = count.isdecimal() and len(count) <= _LONGEST_NUMBER
    sentence = _SENTENCES.get(asked.get("outcome", ""), "")
    return sentence.format(f"{int(count):,}") if is_number else sentence.replace(": {}", "")
