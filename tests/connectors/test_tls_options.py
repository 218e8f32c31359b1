"""Options of TLS: which file is at fault and why, files that would not be used, and what a
connection that fails says to do."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from parser.errors import ExecutionError, SqlError
from sqlengine.config import Config
from sqlengine.connectors.tls.errors import tls_words
from sqlengine.connectors.tls.files import PemFiles
from sqlengine.engine import Engine
from tests.hostile.certificates import MISSING, Authority, Pair

pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))


@dataclass(frozen=True)
class Files:
    """Certificates of two authorities: ours, and one that nobody trusts."""

    folder: Path
    authority: Path
    server: Pair
    client: Pair
    stranger: Pair


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder = tmp_path_factory.mktemp("tls")
    ours, others = Authority(folder / "ours"), Authority(folder / "others", "others")
    (folder / "nonsense").write_text("nonsense")
    return Files(
        folder, ours.own.certificate, ours.sign("server"), ours.sign("client"),
        others.sign("stranger"),
    )  # fmt: skip


@pytest.fixture(scope="module")
def engine(files: Files, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    opened = Engine(Config(data=tmp_path_factory.mktemp("data"), files=(files.folder,)))
    opened.start()
    yield opened
    opened.close()


@pytest.mark.parametrize(
    ("names", "option", "path", "reason"),
    [
        (("nothing", None, None), "tls.ca", "nothing", "No such file"),
        (("nonsense", None, None), "tls.ca", "nonsense", "no certificate"),
        ((None, "nothing", "ours/client.key"), "tls.cert", "nothing", "No such file"),
        ((None, "ours/client.key", "ours/client.key"), "tls.cert", "client.key", "no certificate"),
        ((None, "ours/client.pem", "nothing"), "tls.key", "nothing", "No such file"),
        ((None, "ours/client.pem", "nonsense"), "tls.key", "nonsense", "no such thing in PEM"),
        ((None, "ours/client.pem", "ours/server.key"), "tls.key", "server.key", "not the key of"),
        ((None, "ours/client.pem", None), "tls.cert", "client.pem", "no key: 'tls.key' names it"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(
    files: Files, names: tuple[str | None, ...], option: str, path: str, reason: str
) -> None:
    authorities, certificate, key = (n if n is None else files.folder / n for n in names)
    with pytest.raises(ExecutionError) as raised:
        PemFiles(authorities, certificate, key, "t").client_context()
    assert f"option '{option}' of table 't' names a file" in raised.value.message
    assert raised.value.message.endswith(f"{path}'")
    assert reason in str(raised.value.detail)
    assert raised.value.subject == option


def test_a_certificate_with_its_key_in_one_file(files: Files) -> None:
    both = files.folder / "both.pem"
    both.write_text(files.client.certificate.read_text() + files.client.key.read_text())
    assert PemFiles(certificate=both).client_context().get_ca_certs() is not None


def _failure(client: ssl.SSLContext, server: ssl.SSLContext | None, name: str) -> BaseException:
    """The error of a client that connects, and waits for what the server says."""
    ours, theirs = socket.socketpair()

    def serve() -> None:
        with suppress(OSError):
            if server is None:
                theirs.recv(1000)
                theirs.sendall(b"what is that?\n" * 3)
            else:
                with server.wrap_socket(theirs, server_side=True) as accepted:
                    accepted.recv(1)
        theirs.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        ours.settimeout(20)
        with client.wrap_socket(ours, server_hostname=name) as connected:
            connected.recv(1)
    except OSError as error:
        return error
    finally:
        ours.close()
        thread.join()
    raise AssertionError("it did not fail")


def test_a_connection_that_fails_says_which_option_to_look_at(files: Files) -> None:
    theirs = PemFiles(files.authority, files.server.certificate, files.server.key).server_context()
    known = PemFiles(files.authority, files.client.certificate, files.client.key).client_context()
    without = PemFiles(files.authority).client_context()
    stranger = PemFiles(
        files.authority, files.stranger.certificate, files.stranger.key
    ).client_context()
    for client, server, name, words in (
        (PemFiles().client_context(), theirs, "localhost", "'tls.ca' names who may have signed it"),
        (known, theirs, "elsewhere.example", "write the name that it has"),
        (without, theirs, "localhost", "it wants a certificate"),
        (stranger, theirs, "localhost", "it does not trust the certificate of 'tls.cert'"),
        (known, None, "localhost", "it speaks no TLS (wrong version number): tcp:// may be right"),
    ):
        told = tls_words(_failure(client, server, name), "tcp://")
        assert told is not None
        assert words in told, words
        assert "_ssl.c" not in told


@pytest.mark.parametrize(
    ("kind", "mended"),
    [
        ("'connector' = 'mqtt', 'server' = 'tcp://127.0.0.1:9', 'topic' = 'a'", "ssl://"),
        ("'connector' = 'syslog', 'listen' = 'udp://127.0.0.1:9'", "tls://"),
        ("'connector' = 'http', 'scan.poll-interval' = '1 h', 'url' = 'http://127.0.0.1:9'", "https://"),
    ],
)  # fmt: skip
def test_files_that_would_not_be_used_are_refused(
    engine: Engine, files: Files, kind: str, mended: str
) -> None:
    table = f"CREATE TABLE t (v STRING) WITH ({kind}, 'format' = 'json', 'tls.ca' = '{{0}}');\n"
    text = table.format(files.authority)
    text += "CREATE TABLE o (v STRING) WITH ('connector' = 'blackhole');\n"
    with pytest.raises(SqlError) as raised:
        engine.submit("j", text + "INSERT INTO o SELECT v FROM t")
    assert raised.value.message.startswith("option 'tls.ca' of table 't' is for TLS")
    assert mended in str(raised.value.hint)
    assert raised.value.position is not None
    assert text[raised.value.position.column - 1 :].startswith("'tls.ca'")


def test_the_place_of_a_file_that_is_missing(engine: Engine, files: Files) -> None:
    sink = "'connector' = 'webhook', 'url' = 'https://127.0.0.1:9', 'format' = 'json'"
    text = f"CREATE TABLE o (v INT) WITH ({sink}, 'tls.ca' = '{files.folder}/nothing');\n"
    more = "CREATE TABLE i (v INT) WITH ('connector' = 'datagen', 'rows-per-second' = '1');\n"
    with pytest.raises(SqlError, match="names a file that cannot be used") as raised:
        engine.submit("j", text + more + "INSERT INTO o SELECT v FROM i")
    assert raised.value.position is not None
    assert text[raised.value.position.column - 1 :].startswith("'tls.ca'")
