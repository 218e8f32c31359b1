"""Clusters of their own: with access control and TLS, and with two brokers of which one is away."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from parser.errors import SqlError
from sqlengine.batch import from_pydict
from sqlengine.broker.errors import BrokerAway
from sqlengine.broker.on_rocketmq.address import cluster_address
from sqlengine.broker.on_rocketmq.broker import RocketBroker
from sqlengine.broker.rocketmq import fetching
from sqlengine.broker.rocketmq.tls import Tls
from sqlengine.broker.rocketmq.wire import Account
from sqlengine.connectors.base import Busy, Sink, Source
from sqlengine.connectors.registry import open_sink, open_source
from sqlengine.connectors.rocketmq.connector import RocketConnector
from sqlengine.connectors.rocketmq.source import RocketSource
from sqlengine.system import back_off
from tests.connectors.rocketmq.cluster import Cluster, ids, messages, running, send_ids
from tests.connectors.tables import SCHEMA, environment, table
from tests.hostile.certificates import MISSING, Authority
from tests.servers.rocketmq import RocketServer
from tests.support import eventually

pytestmark = pytest.mark.slow

ME = Account("me", "of-me-12345")
USERS = {
    "authenticationEnabled": "true",
    "authenticationProvider": "org.apache.rocketmq.auth.authentication.provider.DefaultAuthenticationProvider",
    "authenticationMetadataProvider": "org.apache.rocketmq.auth.authentication.provider.LocalAuthenticationMetadataProvider",
    "initAuthenticationUser": '{"username":"me","password":"of-me-12345"}',
    "innerClientAuthenticationCredentials": '{"accessKey":"me","secretKey":"of-me-12345"}',
}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    if MISSING is not None:
        pytest.skip(MISSING)
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def guarded(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster that wants a certificate and a signature of everybody."""
    folder, own = tmp_path_factory.mktemp("guarded"), authority.sign("broker")
    mine = authority.sign("client")
    trusted = authority.own.certificate
    lines = {
        "tls.test.mode.enable": "false",
        "tls.server.certPath": own.certificate, "tls.server.keyPath": own.key,
        "tls.server.need.client.auth": "require", "tls.server.authClient": "true",
        "tls.server.trustCertPath": trusted,
        "tls.client.certPath": own.certificate, "tls.client.keyPath": own.key,
        "tls.client.authServer": "true", "tls.client.trustCertPath": trusted,
    }  # fmt: skip
    (folder / "tls").write_text("".join(f"{k}={v}\n" for k, v in lines.items()))
    options = (
        f"-Dtls.config.file={folder / 'tls'}",
        "-Dtls.enable=true",
        "-Dtls.server.mode=enforcing",
    )
    tls = Tls(str(trusted), str(mine.certificate), str(mine.key))
    server = RocketServer(folder / "servers", settings=USERS, account=ME, tls=tls, options=options)
    with running(server) as cluster:
        yield cluster


def test_a_guarded_cluster(guarded: Cluster, authority: Authority) -> None:
    topic = guarded.topic()
    own = authority.folder / "client"
    tls = {
        "tls.enable": "true", "tls.client.trustCertPath": str(authority.own.certificate),
        "tls.client.certPath": f"{own}.pem", "tls.client.keyPath": f"{own}.key",
    }  # fmt: skip
    keys = {"accessKey": "me", "secretKey": "of-me-12345"}
    options = guarded.options(topic, **tls, **keys)
    sink = open_sink(table(options), environment())
    sink.write(from_pydict(SCHEMA, {"id": [1, 2], "name": ["a", None]}))
    assert sink.commit(1) == 2
    sink.close()
    assert ids(options) == [1, 2]
    for wrong in (
        {"secretKey": "of-others"},
        {"tls.enable": "false"},
        {"tls.client.trustCertPath": f"{own}.pem"},
    ):
        with pytest.raises(SqlError) as told:
            ids(options | wrong | {"requestTimeout": "3 s"})
        assert "of-" not in f"{told.value} {told.value.detail}", "no secret is told"


def test_topics_of_a_server_are_in_a_guarded_cluster(
    guarded: Cluster, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SQLENGINE_ROCKETMQ_ACCESS_KEY", ME.access_key)
    monkeypatch.setenv("SQLENGINE_ROCKETMQ_SECRET_KEY", ME.secret_key)
    own = authority.folder / "client"
    secured = f"tls=true&trusted={authority.own.certificate}"
    address = f"rocketmq://{guarded.server.address}?{secured}&certificate={own}.pem&key={own}.key"
    with closing(RocketBroker(tmp_path / "data", cluster_address(address))) as broker:
        broker.create_topic("secured", 1)
        broker.append("secured", 0, [b"1", b"2"], timestamp_ms=1)
        found = eventually(lambda: broker.read("secured", 0, 0))
        assert found.values.to_pylist() == [b"1", b"2"]
    for less in (secured, "commands=one"):  # without a certificate, and without TLS
        with pytest.raises(BrokerAway):
            RocketBroker(
                tmp_path / "other", cluster_address(f"rocketmq://{guarded.server.address}?{less}")
            )


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("two")
    with running(RocketServer(folder, brokers=("broker-a", "broker-b"))) as cluster:
        yield cluster


def test_one_of_two_brokers_is_away(two: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one's queues are read and written; its own rows wait for it."""
    monkeypatch.setattr(back_off, "_LONGEST_S", 1.0)
    topic = two.topic(1)
    options = two.options(topic, keyColumns="id", partitionDiscoveryIntervalMs="200")
    sink = open_sink(table(options), environment())
    sink.write(from_pydict(SCHEMA, {"id": list(range(20)), "name": [None] * 20}))
    source = open_source(table(options), environment())
    assert source.shards() == ["broker-a:0", "broker-b:0"]
    two.server.brokers[1].kill()
    with pytest.raises(Busy, match="cannot be written now"):
        sink.commit(1)
    two.settle()
    first = eventually(lambda: source.read("broker-a:0", 0, max_rows=99))
    assert 0 < first.num_rows < 20
    eventually(
        lambda: (
            source.shards() == ["broker-a:0", "broker-b:0"]
            and _route(two, topic.name) == ["broker-a"]
        )
    )
    assert source.read("broker-b:0", 0, max_rows=99) is None
    two.server.brokers[1].start()
    assert eventually(lambda: _committed(sink, 1)) == 20
    assert len(messages(topic)) == 20
    second = eventually(lambda: source.read("broker-b:0", 0, max_rows=99))
    assert first.num_rows + second.num_rows == 20
    sink.close()
    source.close()


def test_a_broker_that_is_there_again_has_nothing_new(
    two: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is told of it ends with its first answer, and not with rows of another broker."""
    monkeypatch.setattr(back_off, "_LONGEST_S", 1.0)
    topic = two.topic(1)
    source = RocketConnector().source(table(two.options(topic)), environment())

    def read_all() -> str:
        for queue in ("broker-a:0", "broker-b:0"):
            source.read(queue, 0, max_rows=9)
        return _trouble(source)

    assert not read_all()
    two.server.brokers[1].kill()
    told = eventually(read_all)
    send_ids(topic, [1])
    assert eventually(lambda: source.read("broker-a:0", 0, max_rows=9)).num_rows == 1
    assert _trouble(source) == told
    two.server.brokers[1].start()
    started = time.monotonic()
    eventually(lambda: not read_all())
    assert time.monotonic() - started < fetching._WAIT_MS / 1000, "it is asked, and not waited for"
    assert isinstance(source, RocketSource)
    assert source.health.reconnects == 1
    source.close()


def test_a_broker_that_is_silent(two: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has got what it does not answer: others see that once, too."""
    monkeypatch.setattr(back_off, "_LONGEST_S", 1.0)
    monkeypatch.setattr(fetching, "_PATIENCE_S", 1.0)
    monkeypatch.setattr(fetching, "_WAIT_MS", 1000)
    topic = two.topic(1)
    options = two.options(topic, keyColumns="id", requestTimeout="1 s")
    source = RocketConnector().source(table(options), environment())
    sink = open_sink(table(options), environment())
    sink.write(from_pydict(SCHEMA, {"id": list(range(20)), "name": [None] * 20}))
    assert sink.commit(1) == 20
    two.settle()
    first = eventually(lambda: source.read("broker-a:0", 0, max_rows=99))
    pid = two.server.brokers[0].pid
    os.kill(pid, signal.SIGSTOP)
    try:
        sink.write(from_pydict(SCHEMA, {"id": list(range(20)), "name": ["again"] * 20}))
        with pytest.raises(Busy, match="cannot be written now"):
            sink.commit(2)
        eventually(lambda: source.read("broker-a:0", first.end, max_rows=99) or _trouble(source))
        assert "no answer" in _trouble(source)
    finally:
        os.kill(pid, signal.SIGCONT)
    eventually(lambda: _committed(sink, 2))
    eventually(lambda: source.read("broker-a:0", first.end, max_rows=99))
    assert not _trouble(source)
    assert sorted(json.loads(m.body)["id"] for m in messages(topic)) == sorted([*range(20)] * 2)
    sink.close()
    source.close()


def _trouble(source: Source) -> str:
    assert isinstance(source, RocketSource)
    return source.health.trouble or ""


def test_a_name_server_that_is_away_costs_nothing(two: Cluster) -> None:
    topic = two.topic(1)
    options = two.options(topic, partitionDiscoveryIntervalMs="100")
    source = open_source(table(options), environment())
    two.server.names.kill()
    send_to = topic.route  # the client of the test knows it
    with pytest.raises(SqlError, match="cannot be reached"):
        send_to()
    for _ in range(3):
        assert source.shards() == ["broker-a:0", "broker-b:0"]
    two.server.names.start()
    eventually(lambda: len(_route(two, topic.name)) == 2)
    send_ids(topic, [1])
    assert eventually(lambda: source.read("broker-a:0", 0, max_rows=9)).num_rows == 1
    source.close()


def _committed(sink: Sink, epoch: int) -> int:
    try:
        return sink.commit(epoch)
    except Busy:
        return 0


def _route(cluster: Cluster, topic: str) -> Sequence[str]:
    try:
        return [queue.broker for queue in cluster.client.route(topic).readable]
    except SqlError:
        return []
