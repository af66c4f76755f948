"""Items of pages as rows of PostgreSQL and as records of another topic, despite kills."""

from __future__ import annotations

import signal
from collections import Counter

import orjson

from crawlstream_chaos.stores.postgres import RunningPostgres
from support.pipelines.cluster import PipelineCluster
from support.pipelines.results import page_id, record
from support.pipelines.targets import rows_of, select
from support.waiting import WaitUntil

CODE = '''
def product(page):
    """The products of a page."""
    for text in page.select.css("li::text").getall():
        name, price, *more = text.split()
        rest = {"more": more} if more else {}
        yield {"name": name, "price": float(price) if price != "-" else None, **rest}
'''
SCHEMA = {
    "type": "object",
    "required": ["name", "price"],
    "properties": {"name": {"type": "string"}, "price": {"type": "number"}},
}
STAGES = """
where = {status = ["200"]}
stage = [{use = "python:code:product"}, {use = "validate", schema = "schema.json"}]
expect = {items = {min = 1}, price = {valid = 0.9}}
"""


def page(number: int, *items: str) -> bytes:
    """A page with these items."""
    return record(number, body="".join(f"<li>{item}</li>" for item in items).encode())


def describe(cluster: PipelineCluster, sink: str) -> None:
    """The pipeline and what its stages name."""
    (cluster.home / "code.py").write_text(CODE)
    (cluster.home / "schema.json").write_bytes(orjson.dumps(SCHEMA))
    cluster.describe_sink(sink, STAGES)


async def test_items_are_rows_of_a_database_once(
    cluster: PipelineCluster,
    postgres_server: RunningPostgres,
    fresh_name: str,
    wait_until: WaitUntil,
) -> None:
    """A process is killed, another goes on; repeats add none; the run's quality is published.

    Another edition does not mix its items with these.
    """
    url = postgres_server.make_database(fresh_name)
    describe(cluster, f'kind = "sql"\nurl = "{url}"\ntable = "products"')
    checked = cluster.command("check")
    assert "stages, run by 1 worker process: product, validate" in checked.stdout, checked.stderr
    cluster.feed(page(n, "Lamp 5", "Desk 7 oak") for n in range(40))
    with cluster.process("p1").running():
        await wait_until(lambda: len(rows_of(url, "products")) >= 20, timeout_s=120)
    cluster.feed([page(40, "Chair -"), page(3, "Lamp 5", "Desk 7 oak"), page(41)])
    cluster.end_run(done=42)
    with (process := cluster.process("p2")).running():
        told = await wait_until(cluster.deliveries, timeout_s=120)
        process.signal(signal.SIGTERM)
        assert process.wait() == 0
    rows = rows_of(url, "products")
    assert [row["id"] for row in rows] == sorted(
        [f"{page_id(n)}:{item}" for n in range(40) for item in range(2)] + [f"{page_id(40)}:0"]
    )
    assert Counter((row["name"], row["price"]) for row in rows) == {
        ("Lamp", 5.0): 40,
        ("Desk", 7.0): 40,
        ("Chair", None): 1,
    }
    desk = next(row for row in rows if row["name"] == "Desk")
    assert (desk["n"], desk["_extra"], desk["_errors"]) == (1, {"more": ["oak"]}, None)
    chair = next(row for row in rows if row["name"] == "Chair")
    assert chair["_errors"] == ["price: None is not of type 'number'"]
    account = {name: told[0][name] for name in ("read", "repeats", "delivered", "complete")}
    assert account == {"read": 43, "repeats": 1, "delivered": 41, "complete": True}
    assert (told[0]["items"], told[0]["fields"]["price"]["present"]) == (81, 0.9877)
    (run,) = map(orjson.loads, cluster.command("report", "archive", "--json").stdout.splitlines())
    assert (run["items"], run["ok"], run["closed"]) == (81, True, True)
    sink = f'kind = "sql"\nurl = "{url}"\ntable = "products"'
    cluster.describe_sink(sink, f"edition = 2{STAGES}")
    refused = cluster.command("check")
    assert (refused.returncode, "has items of another edition" in refused.stderr) == (2, True)
    select(url, "delete from products")
    assert cluster.command("check").returncode == 0


async def test_items_are_records_of_a_topic(
    cluster: PipelineCluster, fresh_name: str, wait_until: WaitUntil
) -> None:
    """Each as JSON, with the page that it is of and its number there."""
    topic = f"{fresh_name}.items"
    describe(cluster, f'kind = "kafka"\ntopic = "{topic}"')
    cluster.feed([page(1, "Lamp 5", "Desk 7"), page(1, "Lamp 5"), page(2, "Chair 3")])
    with (process := cluster.process()).running():
        found = await wait_until(
            lambda: items if len(items := cluster.records(topic)) >= 3 else None, timeout_s=120
        )
        process.signal(signal.SIGTERM)
        assert process.wait() == 0
    assert sorted((each["id"], each["n"], each["name"], each["price"]) for each in found) == [
        (page_id(1), 0, "Lamp", 5.0),
        (page_id(1), 1, "Desk", 7.0),
        (page_id(2), 0, "Chair", 3.0),
    ]


async def test_an_item_that_the_database_refuses_is_undelivered_with_its_page(
    cluster: PipelineCluster,
    postgres_server: RunningPostgres,
    fresh_name: str,
    wait_until: WaitUntil,
) -> None:
    """None of the page's items is there then; a replay writes all of them."""
    url = postgres_server.make_database(fresh_name)
    describe(cluster, f'kind = "sql"\nurl = "{url}"\ntable = "products"')
    with (process := cluster.process()).running():
        cluster.feed([page(1, "Lamp 5")])
        await wait_until(lambda: len(rows_of(url, "products")) == 1, timeout_s=120)
        select(url, "alter table products add constraint picky check (price < 10)")
        cluster.feed([page(2, "Desk 7", "Sofa 70"), page(3, "Chair 3")])
        await wait_until(lambda: len(rows_of(url, "products")) == 2, timeout_s=120)
        (refused,) = await wait_until(lambda: cluster.records(cluster.topics.undelivered))
        process.signal(signal.SIGTERM)
        assert process.wait() == 0
    assert (refused["reason"], refused["id"]) == ("sink_refused", page_id(2))
    assert {row["name"] for row in rows_of(url, "products")} == {"Lamp", "Chair"}
    select(url, "alter table products drop constraint picky")
    for _ in range(2):
        replayed = cluster.command("undelivered", "replay", "archive", "--all")
        assert replayed.returncode == 0, replayed.stdout + replayed.stderr
    assert Counter(row["name"] for row in rows_of(url, "products")) == {
        "Lamp": 1,
        "Chair": 1,
        "Desk": 1,
        "Sofa": 1,
    }
