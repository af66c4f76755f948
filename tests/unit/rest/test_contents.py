"""The text of results that are listed: bounded in number and time, and not without a reason."""

from __future__ import annotations

from typing import Any, cast

import orjson
import pytest

from crawlstream_extract.extract import Extracted, ExtractRequest
from rest_service.http.envelope import RequestRefused
from rest_service.topics import contents
from rest_service.topics.contents import FormatsWanted, add_contents, check_contents
from rest_service.topics.extraction import Extraction
from support.pipelines.results import PAGE, record

WANTED = FormatsWanted(formats=["markdown"], max_chars=100)


class Echo:
    """Makes text of a page without worker processes: its body."""

    async def run(self, request: ExtractRequest) -> Extracted:
        """Return the body as Markdown, and a problem of metadata, which is not reported."""
        text = request.body.decode()
        return Extracted(formats={"markdown": text}, problems=("metadata: not_html",))


def records(*values: Any) -> list[dict[str, Any]]:
    """Return records of these values."""
    return [{"partition": 0, "offset": at, "value": value} for at, value in enumerate(values)]


ECHO = cast(Extraction, Echo())


@pytest.mark.parametrize("with_bodies", [True, False])
async def test_each_result_has_its_text(*, with_bodies: bool) -> None:
    """Replaces the body by the text, or adds it if bodies are wanted, for results only."""
    found = records(orjson.loads(record(1)), {"url": "none"})
    await add_contents(ECHO, found, WANTED, with_bodies=with_bodies)
    told = [(each["content"], each["truncated"], each["problems"]) for each in found]
    assert told == [(PAGE.body.decode(), False, []), (None, False, ["unreadable"])]
    assert ("body" in found[0]["value"]) is with_bodies


async def test_texts_that_take_too_long_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The records are there all the same, and say why they have no text."""
    monkeypatch.setattr(contents, "CONTENTS_S", -1)
    found = records({"url": "a"}, {"url": "b"})
    await add_contents(ECHO, found, WANTED, with_bodies=False)
    assert [each["problems"] for each in found] == [["timeout"], ["timeout"]]


@pytest.mark.parametrize(("name", "limit"), [("events", 1), ("rejected", 1), ("results", 51)])
def test_other_records_and_too_many_have_no_text(name: str, limit: int) -> None:
    """They are refused before anything is read."""
    with pytest.raises(RequestRefused) as refused:
        check_contents(name, limit)
    assert refused.value.status == 422
    check_contents("results", 50)
