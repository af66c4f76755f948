"""A Kafka with users and rights; tests themselves use a listener without a login."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    KafkaAdminClient,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)

from crawlstream_chaos.processes import RunningServer
from crawlstream_cli.local import servers
from crawlstream_cli.local.home import find_jars
from crawlstream_cli.local.ports import free_block
from support.servers import running

USER, PASSWORD = "crawler", "s3cret"
_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_GUARDED = """
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller},SASL_PLAINTEXT://127.0.0.1:{sasl}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{sasl}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT
sasl.enabled.mechanisms=PLAIN
listener.name.sasl_plaintext.plain.sasl.jaas.config={login} user_{user}="{password}";
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
"""


@dataclass(frozen=True, slots=True)
class GuardedKafka:
    """Lets in one user, with a password, who may do what was granted."""

    server: RunningServer
    """Its port needs no login."""
    port: int
    """For the user."""

    @property
    def env(self) -> Mapping[str, str]:
        """Variables of a process that is this user."""
        return {
            "KAFKA_HOSTS": f"127.0.0.1:{self.port}",
            "CRAWLSTREAM_KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
            "CRAWLSTREAM_KAFKA_SASL_USERNAME": USER,
            "CRAWLSTREAM_KAFKA_SASL_PASSWORD": PASSWORD,
        }

    def grant(self, operation: str, kind: str, name: str) -> None:
        """Allow an operation on all topics, groups or transactional ids that begin so."""
        pattern = ResourcePattern(
            ResourceType[kind.upper().replace("-", "_")], name, ACLResourcePatternType.PREFIXED
        )
        self._create(ACLOperation[operation.upper()], ACLPermissionType.ALLOW, pattern)

    @contextmanager
    def denied(self, operation: str, kind: str, name: str) -> Iterator[None]:
        """Deny an operation on one of them for the length of the block."""
        pattern = ResourcePattern(ResourceType[kind.upper()], name)
        self._create(ACLOperation[operation], ACLPermissionType.DENY, pattern)
        try:
            yield
        finally:
            self.forgive(name)

    def forgive(self, name: str) -> None:
        """Take back what was denied on something of this name."""
        pattern = ResourcePatternFilter(ResourceType.ANY, name, ACLResourcePatternType.LITERAL)
        which = ACLFilter(None, None, ACLOperation.ANY, ACLPermissionType.DENY, pattern)
        admin = KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{self.server.port}")
        admin.delete_acls([which])
        admin.close()

    def _create(
        self, operation: ACLOperation, permission: ACLPermissionType, pattern: ResourcePattern
    ) -> None:
        admin = KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{self.server.port}")
        admin.create_acls([ACL(f"User:{USER}", "*", operation, permission, pattern)])
        admin.close()


@contextmanager
def guarded_kafka(folder: Path) -> Iterator[GuardedKafka]:
    """Run one for the length of the block; its user may do nothing yet."""
    port = free_block(3)
    server = servers.kafka(folder, port=port, jars=find_jars())
    conf = folder / "conf" / "kafka.properties"
    guarded = _GUARDED.format(
        port=port,
        controller=port + 1,
        sasl=port + 2,
        login=_LOGIN,
        user=USER,
        password=PASSWORD,
    )
    # The last line of a key counts.
    conf.write_text(conf.read_text() + guarded)
    servers.format_kafka(server)
    with running(server) as kafka:
        yield GuardedKafka(kafka, port + 2)
