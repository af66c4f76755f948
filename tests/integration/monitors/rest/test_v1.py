"""The predecessor's endpoints, as its clients know them, between real servers."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
import pytest
from kafka import KafkaProducer

from crawlstream_cli.local.ports import free_block
from support.monitors import MonitorCluster
from support.rest import JSON, RestProcess, rest_beside_monitors, running_rest
from support.waiting import WaitUntil
from support.waiting import wait_until as _wait_until

NOT_JSON = "The payload must be valid JSON."
KEYS = {"read": "r" * 20, "submit": "s" * 20, "operate": "o" * 20}


@pytest.fixture(scope="module")
def rest(
    cluster: MonitorCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RestProcess]:
    """A service next to both monitors; replies are waited for two seconds."""
    folder = tmp_path_factory.mktemp("rest")
    with rest_beside_monitors(cluster, folder, wait_s=2) as service:
        yield service


@pytest.fixture(scope="module")
def strict(
    cluster: MonitorCluster, rest: RestProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RestProcess]:
    """A second service that asks for keys, waits for no reply, and takes small bodies only."""
    del rest
    settings = {
        "CRAWLSTREAM_API_KEYS": ",".join(f"{role}:{secret}" for role, secret in KEYS.items()),
        "WAIT_FOR_RESPONSE_TIME": "0.000001",
        "CRAWLSTREAM_REST_MAX_BODY_BYTES": "2048",
    }
    with running_rest(cluster, tmp_path_factory.mktemp("strict"), **settings) as service:
        yield service


async def test_the_root_tells_how_the_process_is(rest: RestProcess) -> None:
    """A program gets the predecessor's five fields, without an envelope."""
    told = (await rest.get("/")).value
    assert set(told) == {
        *("kafka_connected", "redis_connected", "uptime_sec", "my_id", "node_health"),
    }
    assert (told["kafka_connected"], told["redis_connected"]) == (True, True)
    assert told["node_health"] == "GREEN"
    assert isinstance(told["uptime_sec"], int)
    assert (await rest.post("/", b"")).status == 200
    assert (await rest.post("/", b"{", **JSON)).error["message"] == NOT_JSON


async def test_what_has_no_uuid_is_fed_without_waiting(
    rest: RestProcess, cluster: MonitorCluster
) -> None:
    """The request is in Kafka, byte for byte, when the answer comes; whatever it may be."""
    raw = b'{"appid": "app",  "garbage": 123456789012345678901234567890}'
    answer = await rest.post("/feed", raw, **JSON)
    assert (answer.status, answer.value) == (
        200,
        {"status": "SUCCESS", "data": None, "error": None},
    )
    assert raw in await asyncio.to_thread(cluster.read_all, cluster.topics.incoming)


async def test_a_uuid_is_answered_by_its_reply(rest: RestProcess, wait_until: WaitUntil) -> None:
    """The reply that any other client reads from Kafka is the data of the answer."""
    uuid = uuid4().hex

    async def answered() -> bool:
        # The monitors may still be joining their groups.
        request = {"uuid": uuid, "appid": "app", "stats": "queue"}
        return "queues" in (await rest.post("/feed", request)).data

    await wait_until(answered)


async def test_a_refused_request_is_answered_by_its_refusal(
    rest: RestProcess, wait_until: WaitUntil
) -> None:
    """Requests that the cluster rejects come back as data, with the reasons."""
    request = {"uuid": uuid4().hex, "appid": "app", "crawlid": "crawl", "url": "ftp://x"}

    async def refused() -> bool:
        data = (await rest.post("/feed", request)).data
        return data.get("action") == "rejected" and bool(data["errors"])

    await wait_until(refused)


async def test_a_late_reply_is_polled_once(strict: RestProcess, wait_until: WaitUntil) -> None:
    """A request not answered in time has a poll_id; its reply is kept, and handed out once."""
    key = {"X_API_Key": KEYS["submit"]}

    async def asked() -> str | None:
        """Return the uuid of a request with a late reply; on a busy machine some are in time."""
        request = {"uuid": uuid4().hex, "appid": "app", "stats": "queue"}
        answer = await strict.post("/feed", request, **key)
        return request["uuid"] if answer.data == {"poll_id": request["uuid"]} else None

    uuid = await wait_until(asked)

    async def polled() -> Any:
        answer = await strict.post("/poll", {"poll_id": uuid}, **key)
        return answer.data if answer.status == 200 else None

    assert (await wait_until(polled))["uuid"] == uuid
    again = await strict.post("/poll", {"poll_id": uuid}, **key)
    assert (again.status, again.error) == (404, {"message": "Could not find matching poll_id"})


async def test_refusals_are_the_predecessors(rest: RestProcess) -> None:
    """Codes and sentences of every refusal are those that its clients know."""
    nowhere = {"message": "The desired endpoint does not exist"}
    for answer in (await rest.get("/feed"), await rest.get("/nothing"), await rest.get("/poll")):
        assert (answer.status, answer.error) == (404, nowhere)
    assert (await rest.call("DELETE", "/feed")).status == 405
    plain = await rest.post("/feed", b"{}", Content_Type="text/plain")
    assert (plain.status, plain.error) == (400, {"message": NOT_JSON})
    for body in (b"", b"{", b"[]", b"[" * 100_000, b"\xff"):
        answer = await rest.post("/feed", body, **JSON)
        assert (answer.status, answer.error["message"]) == (400, NOT_JSON), body[:10]
    bad_uuids: list[Any] = [5, "", ["a"], {}, False]
    for uuid in bad_uuids:
        answer = await rest.post("/feed", {"appid": "app", "uuid": uuid})
        assert (answer.status, answer.error["cause"]) == (400, "$.uuid: expected text, or no uuid")
    assert (await rest.post("/feed", {"appid": "app", "uuid": None})).status == 200
    answer = await rest.post("/poll", {})
    assert (answer.status, answer.error) == (
        400,
        {
            "message": "JSON did not validate against schema.",
            "cause": "'poll_id' is a required property",
        },
    )
    assert (await rest.post("/poll", {"poll_id": "x" * 101})).status == 400


async def test_two_hundred_who_wait_cost_nothing(cluster: MonitorCluster, tmp_path: Path) -> None:
    """The process sleeps while clients wait, and hands each its reply when it comes.

    No monitor reads this topic, so the replies are the test's. After that SIGTERM ends it: exit 0.
    """
    elsewhere = {"KAFKA_INCOMING_TOPIC": cluster.topics.rejected, "WAIT_FOR_RESPONSE_TIME": "120"}
    with running_rest(cluster, tmp_path, **elsewhere) as rest:
        process = psutil.Process(rest.process.pid)
        answers = asyncio.gather(*(_ask(rest.port, number) for number in range(200)))
        await _until_all_wait(rest)
        before, began_at = process.cpu_times(), time.monotonic()
        await _wait_until(lambda: time.monotonic() > began_at + 2, every_s=0.5)
        after, waited_s = process.cpu_times(), time.monotonic() - began_at
        await asyncio.to_thread(_reply_to_all, cluster)
        for number, answer in enumerate(await answers):
            assert f'"uuid": "waits-{number}"'.encode() in answer
        spent_s = (after.user + after.system) - (before.user + before.system)
        assert spent_s < 0.5 * waited_s
        assert await asyncio.to_thread(rest.process.stop) == 0


def _reply_to_all(cluster: MonitorCluster) -> None:
    producer = KafkaProducer(bootstrap_servers=cluster.kafka_hosts)
    for number in range(200):
        reply = json.dumps({"uuid": f"waits-{number}"}).encode()
        producer.send(cluster.topics.outbound, reply)
    producer.flush(60)
    producer.close()


async def _until_all_wait(rest: RestProcess) -> None:
    """Return when the service holds two hundred requests back."""

    async def all_wait() -> bool:
        return b"crawlstream_rest_waiting 200.0" in (await rest.get("/metrics")).body

    await _wait_until(all_wait, every_s=0.1)


async def _ask(port: int, number: int) -> bytes:
    body = json.dumps({"appid": "app", "uuid": f"waits-{number}"}).encode()
    head = (
        "POST /feed HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head.encode() + body)
    answer = await reader.read()
    writer.close()
    return answer


async def test_roles_decide_what_a_key_may_do(strict: RestProcess) -> None:
    """Every route is tried with every role: more than a role allows is 401 or 403."""
    seed = {"appid": "app", "crawlid": "crawl", "url": "http://127.0.0.1"}
    stop = {
        "appid": "app",
        "spiderid": "link",
        "crawlid": "crawl",
        "action": "stop",
        "uuid": "uuid-of-stop",
    }
    table: dict[tuple[str, str, str], str] = {
        ("GET", "/health/live", ""): "nobody",
        ("GET", "/health/ready", ""): "nobody",
        ("GET", "/", ""): "read",
        ("GET", "/metrics", ""): "read",
        ("GET", "/v2/openapi.json", ""): "read",
        ("POST", "/poll", '{"poll_id": "x"}'): "read",
        ("POST", "/feed", json.dumps(seed)): "submit",
        ("POST", "/feed", json.dumps(stop)): "operate",
        ("POST", "/feed", '{"anything": "else"}'): "operate",
        ("GET", "/v2/state", ""): "read",
        ("GET", "/v2/crawls", ""): "read",
        ("GET", "/v2/processes", ""): "read",
        ("GET", "/v2/events?limit=1", ""): "read",
        ("POST", "/v2/check", json.dumps(seed)): "submit",
        ("POST", "/v2/crawls", json.dumps(seed)): "submit",
        ("POST", "/v2/crawl/stop", "{}"): "operate",
        ("PUT", "/v2/throttle/rules/example.com", "{}"): "operate",
        ("DELETE", "/v2/throttle/rules/default", ""): "operate",
        ("DELETE", "/anything", ""): "operate",
    }
    order = ["nobody", "read", "submit", "operate"]
    for (method, path, body), needed in table.items():
        for role in order:
            sent = {"X_API_Key": KEYS[role]} if role in KEYS else {}
            headers = {**sent, "Content_Type": "application/json"}
            answer = await strict.call(method, path, body.encode() or None, **headers)
            may = order.index(role) >= order.index(needed)
            assert (answer.status not in (401, 403)) == may, (method, path, body, role)
    wrong = await strict.get("/", Authorization="Bearer " + "x" * 20)
    assert (wrong.status, wrong.error["code"]) == (401, "unauthorized")
    assert (await strict.get("/", Authorization=f"Bearer {KEYS['read']}")).status == 200


async def test_pages_of_other_sites_can_do_nothing(rest: RestProcess) -> None:
    """A browser that is led here by another site, or under another name, is refused."""
    headers: list[dict[str, str]] = [
        {"Origin": "http://evil.test"},
        {"Origin": "null"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Host": "evil.test"},
    ]
    for foreign in headers:
        answer = await rest.post("/feed", {"appid": "app"}, **foreign)
        assert answer.status == 403, foreign
    own = {"Origin": f"http://localhost:{rest.port}", "Host": f"localhost:{rest.port}"}
    assert (await rest.post("/feed", {"appid": "app"}, **own)).status == 200


async def test_bodies_are_bounded(strict: RestProcess) -> None:
    """A body beyond the limit is refused, with or without a stated length."""
    key = KEYS["submit"]
    answer = await strict.post("/feed", b'"' + b"x" * 4096 + b'"', **JSON, X_API_Key=key)
    assert (answer.status, answer.error["code"]) == (413, "too_large")
    head = (
        "POST /feed HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
        f"X-API-Key: {key}\r\n\r\n"
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", strict.port)
    writer.write(head.encode() + b"1000\r\n" + b" " * 4096 + b"\r\n0\r\n\r\n")
    assert b" 413 " in await reader.readline()
    writer.close()


async def test_without_kafka_it_says_so(
    cluster: MonitorCluster, tmp_path: Path, wait_until: WaitUntil
) -> None:
    """It lives, and answers as the predecessor does; nothing that is fed is taken for fed."""
    nowhere = {"KAFKA_HOSTS": f"127.0.0.1:{free_block(1)}"}
    with running_rest(cluster, tmp_path, until="live", **nowhere) as rest:
        for request in ({"appid": "app"}, {"appid": "app", "uuid": "uuid-of-it"}):
            answer = await rest.post("/feed", request)
            assert (answer.status, answer.error) == (500, {"message": "Unable to connect to Kafka"})

        async def knows_redis() -> bool:
            return bool((await rest.get("/")).value["redis_connected"])

        await wait_until(knows_redis)
        assert (await rest.get("/")).value["node_health"] == "YELLOW"
        ready = await rest.get("/health/ready")
        assert (ready.status, ready.error["message"]) == (503, "Waiting for Kafka.")
        crawl = {"appid": "app", "crawlid": "crawl", "url": "http://127.0.0.1"}
        assert (await rest.post("/v2/crawls", crawl)).status == 503
        assert (await rest.get("/v2/events")).status == 503
        assert b"Kafka does not answer" in (await rest.get("/", Accept="text/html")).body
