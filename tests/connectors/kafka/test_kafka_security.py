"""Users and certificates: who may read, what is told of who may not, and that nobody sees a
password."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from parser.errors import SqlError
from sqlengine.config import Config
from sqlengine.connectors.kafka.client import ANSWER_S
from sqlengine.connectors.plain_secrets import masked
from sqlengine.connectors.registry import open_sink, open_source
from sqlengine.engine import Engine
from sqlengine.system.file_access import FileAccess, PathRefused
from tests.connectors.kafka.clients import Kafka
from tests.connectors.kafka.conftest import PASSWORD
from tests.connectors.lives import JOB
from tests.connectors.tables import environment, json_rows, table
from tests.hostile.certificates import Authority
from tests.support import eventually

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="{}";'


def options(kafka: Kafka, listener: str, topic: str, more: dict[str, str]) -> dict[str, str]:
    given = {f"properties.{k}": v for k, v in more.items()}
    address = {"properties.bootstrap.servers": kafka.server.address_of(listener)}
    return {**kafka.options(topic), **address, **given}


def users(authority: Authority, mechanism: str, **more: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "ssl.ca.location": str(authority.own.certificate),
        **{k.replace("_", "."): v for k, v in more.items()},
    }


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
@pytest.mark.parametrize("as_in_java", [False, True])
def test_users(kafka: Kafka, authority: Authority, mechanism: str, as_in_java: bool) -> None:
    topic = kafka.topic()
    given = (
        {"sasl_jaas_config": JAAS.format(PASSWORD)}
        if as_in_java
        else {"sasl_username": "alice", "sasl_password": PASSWORD}
    )
    made = table(options(kafka, "USERS", topic, users(authority, mechanism, **given)))
    kafka.write(topic, json_rows([1]))
    with closing(open_source(made, environment())) as source:
        chunk = eventually(lambda: source.read(f"{topic}-0", 0, max_rows=10))
    assert chunk.num_rows == 1


def test_certificates(kafka: Kafka, authority: Authority) -> None:
    topic = kafka.topic()
    mine = authority.sign("client")
    given = {
        "security.protocol": "SSL",
        "ssl.ca.location": str(authority.own.certificate),
        "ssl.certificate.location": str(mine.certificate),
        "ssl.key.location": str(mine.key),
    }
    made = table(
        {k: v for k, v in options(kafka, "CERTIFICATES", topic, given).items() if "scan." not in k}
    )
    with closing(open_sink(made, environment())) as sink:
        assert sink.last_epoch() is None


@pytest.mark.parametrize("wrong", ["password", "authority"])
def test_who_may_not_is_told_without_a_password(
    kafka: Kafka, authority: Authority, tmp_path: Path, wrong: str
) -> None:
    secret = "through the looking glass" if wrong == "password" else PASSWORD
    trusted = authority if wrong == "password" else Authority(tmp_path)
    given = users(trusted, "PLAIN", sasl_username="alice", sasl_password=secret)
    began = time.monotonic()
    with pytest.raises(SqlError) as raised:
        open_source(table(options(kafka, "USERS", "any", given)), environment())
    assert time.monotonic() - began < ANSWER_S, "whoever submits a job does not wait for so long"
    told = f"{raised.value} {raised.value.detail} {raised.value.hint}"
    assert kafka.server.address_of("USERS") in told
    assert ("Authentication failed" if wrong == "password" else "certificate") in told
    assert secret not in told


@pytest.mark.parametrize(
    ("listener", "given", "named"),
    [
        ("USERS", {"sasl_mechanism": "SCRAM-SHA-512"}, ["properties.sasl.mechanism"]),
        ("USERS", {"sasl_password": "x"}, ["properties.sasl.username", "properties.sasl.password"]),
        ("USERS", {"security_protocol": "SASL_PLAINTEXT"}, ["properties.security.protocol", "SASL_SSL"]),
        ("USERS", {"security_protocol": "PLAINTEXT"}, ["properties.security.protocol", "SASL_SSL"]),
        ("USERS", {"security_protocol": "SSL"}, ["properties.security.protocol", "SASL_SSL"]),
        ("USERS", {"ssl_ca_location": ""}, ["properties.ssl.ca.location"]),
        ("PLAINTEXT", {}, ["properties.security.protocol", "'PLAINTEXT'"]),
        ("PLAINTEXT", {"security_protocol": "SASL_PLAINTEXT"}, ["properties.security.protocol", "'PLAINTEXT'"]),
        ("CERTIFICATES", {"security_protocol": "SSL"}, ["properties.ssl.certificate.location"]),
    ],
)  # fmt: skip
def test_the_option_to_look_at_is_named(
    kafka: Kafka, authority: Authority, listener: str, given: dict[str, str], named: list[str]
) -> None:
    """Where a connection is refused it is rarely the network."""
    account = {"sasl_mechanism": "PLAIN", "sasl_username": "alice", "sasl_password": PASSWORD}
    wanted = {k.replace("_", "."): v for k, v in (account | given).items()}
    settings = {k: v for k, v in (users(authority, "PLAIN") | wanted).items() if v}
    made = options(kafka, "USERS" if listener == "PLAINTEXT" else listener, "any", settings)
    if listener == "PLAINTEXT":
        made["properties.bootstrap.servers"] = kafka.address
    for opening in (open_source, open_sink):
        with pytest.raises(SqlError) as raised:
            opening(table(made if opening is open_source else without_scan(made)), environment())
        for text in named:
            assert text in (raised.value.hint or ""), raised.value.detail


def without_scan(given: dict[str, str]) -> dict[str, str]:
    return {k: v for k, v in given.items() if "scan." not in k}


def test_a_password_comes_from_a_secret_and_is_not_shown(
    kafka: Kafka, authority: Authority, tmp_path: Path
) -> None:
    first, second = kafka.topic(), kafka.topic()
    kafka.write(first, json_rows([1]))
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "kafka").write_text(PASSWORD)
    given = users(authority, "PLAIN", sasl_username="alice", sasl_password="${secret:kafka}")
    declared = [
        f"CREATE TABLE {name} (id BIGINT, name STRING) WITH ("
        + ", ".join(f"'{k}' = '{v}'" for k, v in options(kafka, "USERS", topic, given).items())
        + ");"
        for name, topic in (("source", first), ("target", second))
    ]
    script = "\n".join([*declared, "INSERT INTO target SELECT * FROM source;"])
    engine = Engine(Config(data=tmp_path / "data", secrets=tmp_path / "secrets"))
    engine.start()
    try:
        engine.submit(JOB, script)
        eventually(lambda: kafka.values(second) == json_rows([1]), "the row")
        for file in (tmp_path / "data").rglob("*"):
            assert not file.is_file() or PASSWORD.encode() not in file.read_bytes(), file
    finally:
        engine.close()


@pytest.mark.parametrize(
    "option",
    [
        "sasl.password",
        "sasl.jaas.config",
        "ssl.key.pem",
        "ssl.key.password",
        "ssl.keystore.password",
    ],
)
def test_secrets_are_masked(option: str) -> None:
    text = f"CREATE TABLE t (a INT) WITH ('connector' = 'kafka', 'properties.{option}' = 'hush')"
    assert "hush" not in masked(text)


@pytest.mark.parametrize(
    "option",
    [
        "ssl.ca.location",
        "https.ca.location",
        "sasl.kerberos.keytab",
        "sasl.oauthbearer.assertion.private.key.file",
    ],
)
def test_files_that_sql_may_not_read(kafka: Kafka, tmp_path: Path, option: str) -> None:
    given = options(kafka, "USERS", "any", {option: "/etc/passwd"})
    restricted = replace(environment(), files=FileAccess((tmp_path,)))
    with pytest.raises(PathRefused, match="'/etc/passwd' of table 't'"):
        open_source(table(given), restricted)
