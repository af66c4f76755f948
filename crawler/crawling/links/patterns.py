"""Regular expressions of clients, which must not be able to stop the crawler.

An expression runs on RE2, in time linear in the URL. What RE2 lacks (look-around, references to
groups) or reads differently than Python's ``re`` runs on ``re``, against the clock: a page has
50 ms of CPU for it. Links that are left then are refused, and an expression that has run out of
time on three pages is not tried again by this process.
"""

from __future__ import annotations

import re
import signal
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from crawlstream.model.web.linear import linear_problem, linear_set

PAGE_BUDGET_S = 0.05
"""CPU time of this process that backtracking may take for one page."""
_CHANCES = 3

_READ_DIFFERENTLY = ("{,", "[:", "[[", "--", "&&", "||", "~~")
"""Syntax that RE2 reads differently from Python, or from later versions of Python."""


class OutOfTime(Exception):
    """The page's time for backtracking is used up."""


class Patterns:
    """Finds the URLs that some expressions match."""

    def __init__(self, expressions: Sequence[str]) -> None:
        """re.error: one of them cannot be compiled."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._all = [re.compile(each) for each in expressions]
        self._linear = linear_set([each for each in expressions if _is_linear(each)])
        self._slow = [
            each for each in self._all if self._linear is None or not _is_linear(each.pattern)
        ]

    def __bool__(self) -> bool:
        return bool(self._all)

    def backtrack_on(self, urls: Sequence[str]) -> bool:
        """Return whether :meth:`found_in` needs the clock for some of these."""
        return bool(self._slow) or (bool(self) and not all(map(str.isascii, urls)))

    def found_in(self, url: str) -> bool:
        """Return whether any is found."""
        if not url.isascii():
            return any(each.search(url) for each in self._all)
        if self._linear is not None:
            found = self._linear.Match(url)
            if not found:
                # The empty expression is always found, unless RE2's memory did not suffice.
                raise OutOfTime
            if len(found) > 1:
                return True
        return any(each.search(url) for each in self._slow)


def _is_linear(expression: str) -> bool:
    if not expression.isascii() or any(each in expression for each in _READ_DIFFERENTLY):
        return False
    return not linear_problem(expression)


class PatternBudget:
    """The time that one crawl's expressions may take, over all pages of this process."""

    def __init__(self) -> None:
        self._chances = _CHANCES

    @contextmanager
    def limited(self) -> Iterator[None]:
        """Give the block the budget of a page; it raises OutOfTime when that is used up.

        ``re`` looks for signals while it backtracks, and a signal's handler may raise: the only
        way to stop it short of another process. The timer counts CPU time, so that a busy machine
        does not make an expression slow. Only the main thread may do this.
        """
        if not self._chances:
            raise OutOfTime
        signal.signal(signal.SIGVTALRM, _stop)
        signal.setitimer(signal.ITIMER_VIRTUAL, PAGE_BUDGET_S)
        try:
            yield
        except OutOfTime:
            self._chances -= 1
            raise
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def _stop(*_: object) -> None:
    raise OutOfTime
