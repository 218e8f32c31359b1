"""The Kafka broker of these tests, started once: without a password, with certificates, and with
users."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.hostile.certificates import MISSING, Authority
from tests.servers.kafka import KafkaServer
from tests.servers.process import started

if TYPE_CHECKING:
    from tests.connectors.kafka.clients import Kafka

PASSWORD = "wonderland"  # of alice, by PLAIN and SCRAM
_LOGIN = "org.apache.kafka.common.security"


@pytest.fixture(scope="package")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    if MISSING:
        pytest.skip(MISSING)
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="package")
def kafka(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[Kafka]:
    pytest.importorskip("confluent_kafka", reason="the client of Kafka is not installed")
    from tests.connectors.kafka.clients import Kafka

    mine = authority.sign("server")
    store = authority.folder / "store.pem"
    store.write_bytes(mine.key.read_bytes() + mine.certificate.read_bytes())
    users = "listener.name.users"
    settings = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.own.certificate),
        "listener.name.certificates.ssl.client.auth": "required",
        f"{users}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        f"{users}.plain.sasl.jaas.config": (
            f'{_LOGIN}.plain.PlainLoginModule required user_alice="{PASSWORD}";'
        ),
        f"{users}.scram-sha-256.sasl.jaas.config": f"{_LOGIN}.scram.ScramLoginModule required;",
    }
    server = KafkaServer(
        tmp_path_factory.mktemp("kafka") / "server",
        {"CERTIFICATES": "SSL", "USERS": "SASL_SSL"},
        settings,
        ["--add-scram", f"SCRAM-SHA-256=[name=alice,password={PASSWORD}]"],
    )
    with started(server):
        made = Kafka(server)
        made.warm()
        yield made
