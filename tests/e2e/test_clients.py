"""Kafka clients of other projects: each feeds a request and reads its results."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
from pathlib import Path

from crawlstream_cli.local.home import find_jars
from e2e.cluster import Cluster
from e2e.sites import Serve
from e2e.test_documented import blocks

JAVA = """
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

class Client {
    public static void main(String[] args) throws Exception {
        try (var producer = new KafkaProducer<>(Map.<String, Object>of(
                "bootstrap.servers", args[0], "compression.type", "gzip"),
                new StringSerializer(), new StringSerializer())) {
            producer.send(new ProducerRecord<>(args[1], args[3])).get();
        }
        try (var consumer = new KafkaConsumer<>(Map.<String, Object>of(
                "bootstrap.servers", args[0], "group.id", "java", "auto.offset.reset", "earliest"),
                new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(args[2]));
            while (true) {
                for (var record : consumer.poll(Duration.ofMillis(500))) {
                    System.out.println(record.value());
                    System.out.flush();
                }
            }
        }
    }
}
"""


async def reads(*argv: str, wanted: str, feed: bytes = b"") -> str:
    """Run a program until a line of what it prints holds ``wanted``; that line."""
    process = await asyncio.create_subprocess_exec(
        *argv,
        env={**os.environ, "PYTHONPATH": "", "PYTHONUNBUFFERED": "1"},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=1 << 26,
    )
    assert process.stdin
    assert process.stdout
    assert process.stderr
    process.stdin.write(feed)
    process.stdin.close()
    try:
        async with asyncio.timeout(90):
            async for line in process.stdout:
                if wanted in line.decode():
                    return line.decode()
        raise AssertionError((await process.stderr.read()).decode()[-2000:])
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def succeeds(*argv: str, feed: bytes = b"") -> None:
    """Run a program to its good end."""
    process = await asyncio.create_subprocess_exec(*argv, stdin=asyncio.subprocess.PIPE)
    async with asyncio.timeout(120):
        await process.communicate(feed)
    assert process.returncode == 0


def request(url: str, crawlid: str) -> str:
    """A crawl request as clients send it."""
    return json.dumps({"url": url, "appid": "clients", "crawlid": crawlid})


async def test_the_program_of_the_readme_needs_kafka_python_alone(
    serve: Serve, cluster: Cluster, tmp_path: Path
) -> None:
    """Its lines feed a request and print pages where nothing but kafka-python was installed."""
    (program,) = (block for block in blocks("README.md", "python") if "KafkaConsumer" in block)
    venv = tmp_path / "venv"
    await succeeds(sys.executable, "-m", "venv", str(venv))
    pip = (str(venv / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "-q")
    await succeeds(*pip, "install", "kafka-python")
    async with serve(hosts=1, pages=3) as served:
        here = program.replace("localhost:9092", cluster.hosts)
        here = here.replace("https://example.com/", served.web.seed_url)
        script = tmp_path / "client.py"
        script.write_text(here.replace("demo.", f"{cluster.prefix}."))
        python = (str(venv / "bin" / "python"), str(script))
        await reads(*python, wanted=f"200 {served.web.seed_url}")


async def test_a_java_client_feeds_and_reads(
    serve: Serve, cluster: Cluster, tmp_path: Path
) -> None:
    """Kafka's own client, with nothing but its own jars."""
    source = tmp_path / "Client.java"
    source.write_text(JAVA)
    async with serve(hosts=1, pages=1) as served:
        url = served.web.seed_url
        topics = (f"{cluster.prefix}.incoming", f"{cluster.prefix}.crawled_firehose")
        java = ("java", "-cp", f"{find_jars()}/*", str(source), cluster.hosts)
        line = await reads(*java, *topics, request(url, "java"), wanted=url)
    assert json.loads(line)["status_code"] == 200


async def test_kcat_feeds_and_reads(serve: Serve, cluster: Cluster) -> None:
    """The client of librdkafka, and so those of many languages."""
    async with serve(hosts=1, pages=1) as served:
        url = served.web.seed_url
        kcat = shlex.split(f"kcat -q -b {cluster.hosts} -t {cluster.prefix}")
        kcat, topic = kcat[:-1], kcat[-1]
        await succeeds(*kcat, f"{topic}.incoming", "-P", feed=request(url, "kcat").encode())
        reading = (*kcat, f"{topic}.crawled_firehose", "-C", "-u", "-o", "beginning")
        line = await reads(*reading, wanted=url)
    assert json.loads(line)["status_code"] == 200
