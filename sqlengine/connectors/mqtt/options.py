"""The options of tables of MQTT, and what they say of connections and streams."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from parser.errors import OptionError
from planner.catalog import Table
from sqlengine.connectors.mqtt.account import Account, Address, address_of
from sqlengine.connectors.mqtt.deduplication import key_text
from sqlengine.connectors.mqtt.packets import V5, V311, Version, Will
from sqlengine.connectors.mqtt.topics import filters_of, name_error
from sqlengine.connectors.receivers.base import Stream
from sqlengine.connectors.receivers.source import RECEIVE_OPTIONS, stream_of
from sqlengine.connectors.tls.files import TLS_OPTIONS, pem_files
from sqlengine.formats.base import Option
from sqlengine.formats.options import at_least, between, boolean, choice, delay, duration
from sqlengine.system.file_access import FileAccess

_QOS: Final = choice("0", "1", "2")
# What a server takes for a session that never ends.
_FOR_EVER_S: Final = 0xFFFF_FFFF


OPTIONS: Final[Mapping[str, Option]] = {
    "server": Option(
        address_of, required=True, place=True, doc="tcp://host:1883, or by TLS ssl://host:8883"
    ),
    "topic": Option(
        required=True,
        doc="what is read: filters such as plant/+/temp, separated by ;, also $share/GROUP/FILTER;"
        " where rows are written: a topic, in which {column} stands for a value",
    ),
    "version": Option(choice("5", "3.1.1"), default="5", doc="of MQTT"),
    "client-id": Option(
        doc="by which the server knows the connection; default: one that no other server has"
    ),
    "username": Option(doc="who connects"),
    "password": Option(secret=True, doc="of the one who connects"),
    "clean-start": Option(
        boolean, default="false", doc="let the server forget what it has kept for the client"
    ),
    "session-expiry": Option(
        delay, default="1 h", doc="how long messages are kept for a client that is gone"
    ),
    "keep-alive": Option(delay, default="60 s", doc="the server is asked so often if it is there"),
    "connect-timeout": Option(duration, default="10 s", doc="how long an answer may take"),
    **TLS_OPTIONS,
    "tls.verify-hostname": Option(
        boolean, default="true", doc="the certificate must name the host"
    ),
    "will.topic": Option(doc="where the server says that the client is gone without a word"),
    "will.payload": Option(default="", doc="what it says then"),
    "will.qos": Option(_QOS, default="0", doc="how it says that"),
    "will.retain": Option(boolean, default="false", doc="that is kept for later subscribers"),
    "qos": Option(_QOS, default="1", doc="how messages are asked for"),
    "receive-maximum": Option(
        between(1, 65_535),
        default="4096",
        doc="how many messages may come before one of them is acknowledged (MQTT 5)",
    ),
    "deduplicate.key": Option(
        key_text,
        doc="leaves out messages with a key that came before: field:NAME of a JSON object,"
        " property:NAME, topic, payload, several of them separated by ;",
    ),
    "deduplicate.window": Option(
        at_least(1), default="100000", doc="among so many of the last messages"
    ),
    **RECEIVE_OPTIONS,
    "sink.qos": Option(_QOS, default="1", doc="how rows are published"),
    "sink.retain": Option(
        boolean, default="false", doc="the last message of each topic is kept for subscribers"
    ),
}
# Those that say how one connection is made: all tables that share it agree on them.
_OF_CONNECTION: Final = (
    "version", "username", "clean-start", "session-expiry", "keep-alive", "connect-timeout",
    *TLS_OPTIONS, "tls.verify-hostname", "will.topic", "will.payload", "will.qos", "will.retain",
    "receive-maximum",
)  # fmt: skip


def stream_of_table(
    table: Table, options: Mapping[str, object], said: Mapping[str, object], *, lasting: bool
) -> Stream:
    """Returns the stream that a table reads, named by what is `said` of its place. PlanError where
    'topic' is no filter."""
    try:
        filters = filters_of(table.options["topic"])
    except ValueError as error:
        message = f"option 'topic' of table '{table.display}' is wrong"
        raise OptionError(message, detail=str(error), subject="topic") from None
    what = {"topic": ";".join(filters), "qos": str(options["qos"])}
    if options["deduplicate.key"] is not None:
        what["deduplicate.key"] = str(options["deduplicate.key"])
        what["deduplicate.window"] = str(options["deduplicate.window"])
    client, place = said["client-id"], str(said["server"])
    if client is not None:
        place += f" as '{client}'"
    elif version_of(options) == V311:
        place += f" for {what['topic']}"  # each has a connection of its own, see `settings_of`
    expiry = options["session-expiry"]
    assert isinstance(expiry, int)
    lasts = expiry if (lasting or client is not None) and not options["clean-start"] else 0
    return stream_of(place, what, options, lasts)


def settings_of(table: Table, options: Mapping[str, object]) -> dict[str, str]:
    """Returns what all tables agree on that share a connection. In MQTT 3.1.1 a message does not
    say for which subscription it came, so that a connection is for one list of filters."""
    told = {name: str(options[name]) for name in _OF_CONNECTION if options[name] is not None}
    if version_of(options) == V311:
        told |= {"topic": table.options["topic"], "qos": str(options["qos"])}
    return told


def version_of(options: Mapping[str, object]) -> Version:
    """Returns the version of MQTT, as its packets name it."""
    return V5 if options["version"] == "5" else V311


def account_of(
    table: Table, options: Mapping[str, object], files: FileAccess, client: str, *, lasting: bool
) -> Account:
    """Returns how a table's server is reached; `client`: its id, where the table names none.
    `lasting`: the server keeps the session, if the options say so. PlanError where options
    contradict each other, or name files that SQL may not use."""
    server, in_flight = options["server"], options["receive-maximum"]
    expiry, alive, timeout = (
        options[name] for name in ("session-expiry", "keep-alive", "connect-timeout")
    )
    assert isinstance(server, Address)
    assert isinstance(in_flight, int)
    assert isinstance(expiry, int)
    assert isinstance(alive, int)
    assert isinstance(timeout, int)
    lasts = lasting and not options["clean-start"] and expiry > 0
    return Account(
        server,
        client,
        version_of(options),
        _text(options["username"]),
        _text(options["password"]),
        clean=not lasts,
        expiry_s=min(-(-expiry // 1000), _FOR_EVER_S) if lasts else 0,
        keep_alive_s=min(-(-alive // 1000), 65_535),
        in_flight=in_flight,
        will=_will_of(table, options),
        files=pem_files(table, options, files, None if server.tls else "tcp://"),
        check_host=bool(options["tls.verify-hostname"]),
        timeout_s=timeout / 1000,
    )


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _will_of(table: Table, options: Mapping[str, object]) -> Will | None:
    topic = options["will.topic"]
    if topic is None:
        return None
    if (wrong := name_error(str(topic))) is not None:
        message = f"option 'will.topic' of table '{table.display}' is wrong"
        raise OptionError(message, detail=wrong, subject="will.topic")
    payload, qos = str(options["will.payload"]).encode(), int(str(options["will.qos"]))
    return Will(str(topic), payload, qos, bool(options["will.retain"]))
