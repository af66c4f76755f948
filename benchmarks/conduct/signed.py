"""Measure what signing its requests costs a crawler: CPU time of a page, bytes, instructions.

One crawler fetches the synthetic web without and with a key, one after the other. Two such runs
differ by more than a signature costs, so the share is that of a signature measured alone.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from lib.cpu_time import cpu_us
from lib.crawlers import Speed, Stage, Web, stage
from lib.harness import Benchmark, Figures, Line
from lib.instructions import ARGUMENT, counted, instructions
from lib.processes import CRAWLER
from redis.asyncio import Redis

from crawlstream.signing.keys import new_key
from crawlstream.signing.signer import Form, Signer, Terms

AGENT = "https://bot.example"
URL = "http://127.1.0.1:8080/p/1.html"
MEASURED_S = 6


def signing(form: Form = "string", *, has_nonce: bool = True) -> Callable[[], list[bytes]]:
    """Return what makes the lines that libcurl gets for one request, with a key of its own."""
    with tempfile.TemporaryDirectory(prefix="crawlstream-bench-") as folder:
        key = new_key(Path(folder, "key.pem"))
    signer = Signer(key, Terms(agent=AGENT, form=form, has_nonce=has_nonce))

    def lines() -> list[bytes]:
        return [f"{name}: {value}".encode() for name, value in signer.headers(URL).items()]

    return lines


def size(lines: list[bytes]) -> int:
    """Return the bytes of these lines in a request."""
    return sum(len(line) + len(b"\r\n") for line in lines)


async def crawl(on: Stage, env: Mapping[str, str]) -> Speed:
    """Measure one crawler with more settings."""
    await on.prepare()
    return await on.speed(CRAWLER, env={**on.environment, **env})


async def measure(redis: Redis) -> Figures:
    """Measure a crawler without and with a key, and a signature."""
    async with stage(redis, Web(), measured_s=MEASURED_S) as on:
        new_key(Path(on.folder, "key.pem"))
        plain = await crawl(on, {})
        settings = {
            "CRAWLSTREAM_SIGNING_KEYS": str(Path(on.folder, "key.pem")),
            "CRAWLSTREAM_SIGNATURE_AGENT": AGENT,
        }
        signed = await crawl(on, settings)
    plain_ms, signed_ms = plain.cpu_ms["crawler"], signed.cpu_ms["crawler"]
    us = cpu_us(signing())
    found = {
        "share_of_a_page": us / 1000 / plain_ms,
        "us_a_request": us,
        "cpu_of_unsigned": signed_ms / plain_ms,
        "cpu_ms_a_page": signed_ms,
        "unsigned_cpu_ms_a_page": plain_ms,
        "pages_per_s": signed.pages_per_s,
        "unsigned_pages_per_s": plain.pages_per_s,
        "bytes_a_request": size(signing()()),
        "bytes_without_nonce": size(signing(has_nonce=False)()),
        "bytes_in_form_url": size(signing("url")()),
    }
    count = instructions(__file__)
    return found if count is None else {**found, "instructions_a_request": count}


if __name__ == "__main__":
    if sys.argv[1:2] == [ARGUMENT]:
        counted(signing(), int(sys.argv[2]))
    else:
        Benchmark(
            name="signed",
            about="CPU of a crawler for a page of 1 KB with and without signatures, alternating;"
            " CPU, bytes and instructions of a signature.",
            measure=measure,
            lines={
                "share_of_a_page": Line(floor=0.08, goal=0.05, unit=""),
                "bytes_a_request": Line(floor=500, goal=430, unit="bytes"),
            },
            repetitions=2,
        ).main()
