"""Rights in Kafka that a process needs, checked before it begins."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from kafka import KafkaAdminClient
from kafka.errors import GroupAuthorizationFailedError, TopicAuthorizationFailedError

from crawlstream.bus.access.refusals import RIGHTS
from crawlstream.bus.connect import Kafka, admin
from crawlstream.errors import KafkaRefused

_CLIENT_ID = "crawlstream-rights"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """Topics and groups that a process cannot work without."""

    reads: Sequence[str] = ()
    writes: Sequence[str] = ()
    groups: Sequence[str] = ()
    """Groups that it is a member of."""


async def check_rights(kafka: Kafka, rights: Rights) -> None:
    """Return if Kafka grants them, as far as it reports them; a topic need not exist yet.

    KafkaRefused names what is missing, and the remedy. KafkaUnavailable: no answer.
    """
    await asyncio.to_thread(_check, kafka, rights)


def _check(kafka: Kafka, rights: Rights) -> None:
    missing = []
    with admin(kafka, _CLIENT_ID) as client:
        topics = sorted({*rights.reads, *rights.writes})
        for described in client.describe_topics(topics) if topics else ():
            name, granted = described["name"], described.get("authorized_operations") or ()
            is_hidden = described["error_code"] == TopicAuthorizationFailedError.errno
            wanted = [("READ", rights.reads), ("WRITE", rights.writes)]
            missing += [
                f"{right} on topic {name}"
                for right, names in wanted
                if name in names and right not in granted and (granted or is_hidden)
            ]
        refused = [group for group in rights.groups if not _may_read(client, group)]
        missing += [f"READ on group {group}" for group in refused]
    if missing:
        raise KafkaRefused(f"Kafka refuses {', '.join(missing)}: {RIGHTS}")


def _may_read(client: KafkaAdminClient, group: str) -> bool:
    """Return whether this user may join the group, as far as Kafka reports it.

    For a group without a first member Kafka reports only whether the user may describe it.
    """
    try:
        described = client.describe_groups([group])[group]
    except GroupAuthorizationFailedError:
        return False
    granted = described.get("authorized_operations")
    is_refused = GroupAuthorizationFailedError.__name__ in (described["error"] or "")
    return not is_refused and (not granted or "READ" in granted)
