"""Cookies that a script's redirect takes along."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import pytest

from crawling.render.cdp import Pipe
from crawling.render.cookies import cookies_set

OWN = [{"name": "own", "value": "1", "path": "/"}, {"name": "own", "value": "4", "path": "/next"}]


class ReportingBrowser:
    """Reports cookies in the order that it is given."""

    def __init__(self, cookies: Sequence[Mapping[str, str]]) -> None:
        self._cookies = cookies

    async def call(self, *_: object, **_named: object) -> dict[str, Sequence[Mapping[str, str]]]:
        """Answer any question with the cookies."""
        return {"cookies": self._cookies}


@pytest.mark.parametrize("cookies", [OWN, OWN[::-1]])
async def test_the_cookie_for_the_longer_path_is_taken(cookies: list[dict[str, str]]) -> None:
    """Whatever order the browser reports two cookies of one name in."""
    pipe = cast("Pipe", ReportingBrowser(cookies))
    way = ("http://a.example/", "http://a.example/next")
    assert await cookies_set(pipe, "session", way, ()) == [("Set-Cookie", "own=4; Path=/")]
