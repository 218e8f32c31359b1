"""TLS on the server's port: certificates of both sides, and what clients say when it fails."""

from __future__ import annotations

import json
import logging
import shutil
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner
from flask import Flask

from parser.errors import ServiceError
from parser.limits import using
from sqlengine import connect
from sqlengine.api.server import HttpServer
from sqlengine.api.serving.admission import Head, Refusal
from sqlengine.api.serving.certificates import TlsFiles
from sqlengine.broker.errors import BrokerUnreachable, Unreachable
from sqlengine.broker.remote.client import connect as connect_broker
from sqlengine.cli import cli
from sqlengine.client import Client, Refused
from sqlengine.config import Config
from sqlengine.service import Service
from sqlengine.system.client_tls import ClientTls
from tests.hostile.certificates import MISSING, Authority, Pair
from tests.hostile.raw_http import Raw
from tests.service.harness import User, running
from tests.support import eventually

pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))


@dataclass
class Secured:
    """A server that speaks TLS."""

    port: int
    authority: Authority
    own: Pair
    user: User

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}"

    def client(self, tls: ClientTls, url: str | None = None) -> Client:
        return Client(url or self.url, tls=tls)


def trusting(authority: Authority, own: Pair | None = None) -> ClientTls:
    shown = (str(own.certificate), str(own.key)) if own else (None, None)
    return ClientTls(str(authority.own.certificate), *shown)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("tls")
    authority = Authority(folder / "ca")
    own = authority.sign("server", "DNS:localhost")
    files = {"tls_certificate": own.certificate, "tls_key": own.key}
    with using(head_time=2), running(folder / "data", **files) as (service, _):
        client = Client(f"https://localhost:{service.port}", tls=trusting(authority))
        yield Secured(service.port, authority, own, User(client))


@pytest.fixture(scope="module")
def mutual(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """A server that asks clients for certificates, and has no token."""
    folder = tmp_path_factory.mktemp("mutual")
    authority = Authority(folder / "ca")
    own = authority.sign("server")
    files = {
        "tls_certificate": own.certificate, "tls_key": own.key,
        "tls_client_ca": authority.own.certificate,
    }  # fmt: skip
    with running(folder / "data", **files) as (service, _):
        tls = trusting(authority, authority.sign("ingest"))
        client = Client(f"https://localhost:{service.port}", tls=tls)
        yield Secured(service.port, authority, own, User(client))


@pytest.fixture(autouse=True)
def _ended() -> Iterator[None]:
    yield
    Raw.close_all()


# ---- what works ----------------------------------------------------------------------------------


def test_records_of_all_sizes_come_and_go(secured: Secured) -> None:
    secured.user.topic("sizes")
    sizes = [1, 16_383, 16_384, 16_385, 100_000, 3_000_000]
    secured.user.write("sizes", *[json.dumps({"x": "y" * n}).encode() for n in sizes])
    assert [len(r["x"]) for r in secured.user.read("sizes")] == sizes


def test_many_use_it_at_once(secured: Secured) -> None:
    """Threads read and write over connections that are kept, and some that wait."""
    tls = trusting(secured.authority)
    with connect(secured.url, ca_file=tls.ca_file) as connection:
        connection.create_topic("busy", 4)

        def work(shard: int) -> list[int]:
            for n in range(30):
                connection.write("busy", [b"x" * 1000 * n], shard=shard)
                connection.broker.wait_for_data(0.01)
            return [len(r.value or b"") for r in connection.read("busy", shard=shard)]

        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(work, range(4))) == [[1000 * n for n in range(30)]] * 4


def test_requests_in_one_record_and_after_each_other(secured: Secured) -> None:
    context = trusting(secured.authority).context()
    raw = Raw(context.wrap_socket(Raw.to(secured.port).socket, server_hostname="localhost"))
    raw.head("GET", "/healthz", end="\r\n\r\nGET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    for _ in range(2):
        assert raw.answer().status == 200
    assert raw.head("GET", "/api/v1/jobs", "Connection: close").answer().status == 200


def test_the_command_line(secured: Secured, monkeypatch: pytest.MonkeyPatch) -> None:
    ca = str(secured.authority.own.certificate)
    run = CliRunner().invoke
    assert run(cli, ["jobs", "--server", secured.url, "--ca-file", ca]).exit_code == 0
    refused = run(cli, ["jobs", "--server", secured.url])
    assert "--ca-file FILE, or SQLENGINE_CA_FILE" in refused.output
    monkeypatch.setenv("SQLENGINE_CA_FILE", ca)
    assert run(cli, ["jobs", "--server", secured.url]).exit_code == 0


def test_names_in_certificates_are_who_asks(mutual: Secured) -> None:
    heads: list[Head] = []

    def admit(head: Head) -> Refusal:
        heads.append(head)
        return Refusal(418, ServiceError("seen"))

    files = TlsFiles(mutual.own.certificate, mutual.own.key, mutual.authority.own.certificate)
    server = HttpServer(Flask("none"), "127.0.0.1", 0, admit=admit, tls=files)
    server.start()
    try:
        client = Client(f"https://localhost:{server.port}", tls=mutual.user.client.tls)
        with pytest.raises(Refused, match="seen"):
            client.get("/who")
    finally:
        server.stop()
    assert (heads[0].peer.certificate, heads[0].scheme, heads[0].path) == (
        "ingest",
        "https",
        "/who",
    )


def test_a_certificate_is_enough_where_there_is_no_token(mutual: Secured) -> None:
    assert mutual.user.states() == {}
    page = {"Host": "db.example", "Origin": "https://evil.example"}
    asked = urllib.request.Request(f"{mutual.url}/api/v1/jobs", headers=page)
    with pytest.raises(urllib.error.HTTPError, match="403") as refused:
        urllib.request.urlopen(asked, context=mutual.user.client.tls.context())
    refused.value.close()


# ---- what does not -------------------------------------------------------------------------------


def unreachable(client: Client) -> str:
    with pytest.raises(Unreachable) as told:
        client.get("/api/v1/jobs")
    error = told.value
    with pytest.raises((BrokerUnreachable, ServiceError)) as other:
        connect_broker(client.server, None, client.tls).topics()
    assert other.value.message == error.message, other.value.detail
    return f"{error.message}; {error.detail}; {error.hint}"


def test_an_unknown_authority(secured: Secured, tmp_path: Path) -> None:
    for tls in (ClientTls(), trusting(Authority(tmp_path / "other"))):
        said = unreachable(secured.client(tls))
        assert "is signed by nobody whom this client trusts" in said
        assert "--ca-file" in said


def test_another_name(secured: Secured) -> None:
    url = f"https://127.0.0.1:{secured.port}"
    said = unreachable(secured.client(trusting(secured.authority), url))
    assert "is for another name" in said


def test_a_client_without_a_certificate(mutual: Secured, tmp_path: Path) -> None:
    said = unreachable(mutual.client(trusting(mutual.authority)))
    assert "does not accept the certificate of this client, or has none" in said
    stranger = Authority(tmp_path / "other").sign("ingest")
    said = unreachable(mutual.client(trusting(mutual.authority, stranger)))
    assert "does not accept the certificate" in said


def test_http_instead_of_https_and_the_reverse(secured: Secured, user: User) -> None:
    with pytest.raises(Refused, match="this port speaks https: write https://"):
        Client(f"http://localhost:{secured.port}").get("/api/v1/jobs")
    plain = user.client.server.replace("http://127.0.0.1", "https://localhost")
    said = unreachable(Client(plain, tls=trusting(secured.authority)))
    assert "does not speak TLS" in said
    assert plain.replace("https", "http") in said


def test_old_protocols_are_refused(secured: Secured) -> None:
    context = trusting(secured.authority).context()
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("DEFAULT@SECLEVEL=0")
    raw = Raw.to(secured.port)
    with pytest.raises((ssl.SSLError, ConnectionError)):
        context.wrap_socket(raw.socket, server_hostname="localhost")


def test_a_handshake_that_never_ends_has_the_heads_deadline(secured: Secured) -> None:
    silent, begun = Raw.to(secured.port), Raw.to(secured.port).send(b"\x16\x03\x01\x02")
    assert secured.user.states() == {}
    eventually(lambda: silent.is_closed() and begun.is_closed(), "the end of both")


def test_rubbish_instead_of_a_handshake(secured: Secured) -> None:
    for rubbish in (b"\x16" + bytes(range(256)), b"\x16\x03\x01\x00\x05hello", b"\x00" * 100):
        raw = Raw.to(secured.port).send(rubbish)
        eventually(raw.is_closed, "its end")
    assert secured.user.states() == {}


# ---- files ---------------------------------------------------------------------------------------


def certificate_of(secured: Secured) -> bytes | None:
    context = trusting(secured.authority).context()
    with (
        socket.create_connection(("localhost", secured.port), 30) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as tls,
    ):
        return tls.getpeercert(binary_form=True)


def test_certificates_are_read_again(secured: Secured, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    first = certificate_of(secured)
    new = secured.authority.sign("next", "DNS:localhost")
    secured.own.key.write_text("half a key")  # as while it is copied
    eventually(lambda: "the one of before is used" in caplog.text, lambda: caplog.text)
    assert certificate_of(secured) == first
    shutil.copy(new.key, secured.own.key)
    shutil.copy(new.certificate, secured.own.certificate)
    eventually(lambda: certificate_of(secured) != first, "the new certificate")
    assert secured.user.states() == {}


def test_an_expired_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    own = authority.expired("server")
    files = {"tls_certificate": own.certificate, "tls_key": own.key}
    with running(tmp_path / "data", **files) as (service, _):
        client = Client(f"https://localhost:{service.port}", tls=trusting(authority))
        assert "has expired" in unreachable(client)


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    pair, other = authority.sign("a"), authority.sign("b")
    for certificate, key in ((pair.certificate, other.key), (pair.key, pair.key)):
        with pytest.raises(ServiceError, match="cannot be used"):
            Service(Config(tmp_path / "d", port=0, tls_certificate=certificate, tls_key=key))
    files = TlsFiles(pair.certificate, pair.key)
    for mode in (0o644, 0o601, 0o620):
        pair.key.chmod(mode)
        with pytest.raises(ServiceError, match="may be read or written by others"):
            files.context()
    pair.key.chmod(0o640)
    files.context()
    with pytest.raises(ServiceError, match="a certificate and its key are needed"):
        Service(Config(tmp_path / "d", port=0, tls_certificate=pair.certificate))
    with pytest.raises(ServiceError, match="certificate file '/nowhere' cannot be used"):
        Client("https://localhost:1", tls=ClientTls("/nowhere")).get("/healthz")
