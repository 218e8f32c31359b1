"""The options of tables over RocketMQ: named as in its connector for Flink and in its clients."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

from parser.errors import OptionError, PlanError
from planner.catalog import Table
from sqlengine.broker.rocketmq.client import RocketClient
from sqlengine.broker.rocketmq.tls import Tls
from sqlengine.broker.rocketmq.topic import ALL, Filter, RocketTopic
from sqlengine.broker.rocketmq.wire import Account
from sqlengine.connectors.topic.upserts import UPSERT_OPTION
from sqlengine.formats.base import Option
from sqlengine.formats.options import at_least, boolean, choice, duration
from sqlengine.system.file_access import FileAccess

_GROUP: Final = "sqlengine"
_FILES: Final = tuple(f"tls.client.{k}Path" for k in ("trustCert", "cert", "key"))
_TIME: Final = "%Y-%m-%d %H:%M:%S"


def _zone(text: str) -> ZoneInfo:
    try:
        return ZoneInfo(text)
    except (ValueError, OSError, KeyError):
        raise ValueError("expected a time zone such as 'Asia/Shanghai'") from None


def _time(text: str) -> datetime:
    try:
        return datetime.strptime(text.strip(), _TIME)
    except ValueError:
        raise ValueError("expected a time such as '2026-01-31 12:00:00'") from None


CLUSTER: Final[Mapping[str, Option]] = {
    "topic": Option(required=True, doc="the topic's name"),
    "nameServerAddress": Option(place=True, doc="the name servers: host:port, separated by ;"),
    "endpoints": Option(place=True, doc="another name of 'nameServerAddress'"),
    "accessKey": Option(secret=False, doc="who asks, where the cluster has access control"),
    "secretKey": Option(secret=True, doc="what requests are signed with"),
    "securityToken": Option(secret=True, doc="what goes with keys that are valid for a while"),
    "requestTimeout": Option(duration, default="10 s", doc="how long an answer may take"),
    "tls.enable": Option(boolean, default="false", doc="connections are encrypted"),
    "tls.client.authServer": Option(
        boolean, default="true", doc="the servers have to prove who they are"
    ),
    "tls.client.trustCertPath": Option(
        place=True, doc="certificates that are trusted (PEM); default: those of the system"
    ),
    "tls.client.certPath": Option(place=True, doc="the client's certificate (PEM)"),
    "tls.client.keyPath": Option(place=True, doc="its key (PEM)"),
    "tls.client.keyPassword": Option(secret=True, doc="of the key"),
}
SOURCE: Final[Mapping[str, Option]] = {
    "consumerGroup": Option(
        doc="whose offsets are published after checkpoints, and taken by 'group-offsets'"
    ),
    "tag": Option(doc="only messages with one of these tags: a || b"),
    "sql": Option(doc="only messages whose properties fulfil this condition (SQL-92)"),
    "scan.startup.mode": Option(
        choice("latest-offset", "earliest-offset", "group-offsets", "timestamp"),
        default="latest-offset",
    ),
    "scan.startup.timestamp-millis": Option(at_least(0), doc="where the mode 'timestamp' begins"),
    "startMessageOffset": Option(at_least(0), doc="where every queue begins"),
    "startTimeMs": Option(at_least(0), doc="as the mode 'timestamp' with this time"),
    "startTime": Option(_time, doc="the same as yyyy-MM-dd HH:mm:ss in 'timeZone'"),
    "scan.bounded.mode": Option(
        choice("unbounded", "latest-offset", "timestamp"), default="unbounded"
    ),
    "scan.bounded.timestamp-millis": Option(at_least(0), doc="where the mode 'timestamp' ends"),
    "endTime": Option(_time, doc="the same as yyyy-MM-dd HH:mm:ss in 'timeZone'"),
    "timeZone": Option(_zone, default="UTC", doc="of 'startTime' and 'endTime'"),
    "partitionDiscoveryIntervalMs": Option(
        at_least(100), default="30000", doc="how often new queues are looked for"
    ),
    "pullBatchSize": Option(
        at_least(1), default="1024", doc="messages asked for at a time; brokers may give fewer"
    ),
}
SINK: Final[Mapping[str, Option]] = {
    "producerGroup": Option(default=_GROUP, doc="the group of producers that is told to brokers"),
    "keyColumns": Option(
        doc="columns, separated by commas: the keys of a message, whose rows stay in order"
    ),
    "writeKeysToBody": Option(
        boolean, default="true", doc="'false': key columns are not in the body"
    ),
    "isDynamicTag": Option(boolean, default="false", doc="the tag is that of 'dynamicTagColumn'"),
    "dynamicTagColumn": Option(doc="the column whose values are tags"),
    "dynamicTagColumnWriteIncluded": Option(
        boolean, default="true", doc="'false': that column is not in the body"
    ),
    "delay": Option(duration, doc="consumers get a message so long after it was sent"),
    "retryTimes": Option(
        at_least(0), default="10", doc="how often messages that a broker refuses are sent again"
    ),
    "maxMessageSize": Option(
        at_least(1), default="4194304", doc="bytes of a message: what the brokers allow"
    ),
    "compressType": Option(choice("ZLIB", "ZSTD", "none"), default="ZLIB"),
    "compressMsgBodyOverHowmuch": Option(
        at_least(0), default="4096", doc="larger bodies (bytes) are compressed"
    ),
    "rowsPerMessage": Option(
        at_least(1),
        default="1",
        doc="up to so many rows are one message, which tables of this connector alone can read",
    ),
    UPSERT_OPTION: Option(
        boolean,
        default="false",
        doc="a message is the row of its primary key, one without a body its end",
    ),
}


def integer_of(options: Mapping[str, object], name: str) -> int:
    """Returns the value of an option that has one, a whole number."""
    value = options[name]
    assert isinstance(value, int)
    return value


def text_of(options: Mapping[str, object], name: str) -> str:
    """Returns the value of an option, '' where there is none."""
    value = options[name]
    return value if isinstance(value, str) else ""


def topic_of(table: Table, options: Mapping[str, object], group: str) -> RocketTopic:
    """Returns the topic of a table, with a client of its own that has not asked anything yet.
    OptionError where no name server is named, or an option contradicts another."""
    named = text_of(options, "nameServerAddress") or text_of(options, "endpoints")
    if not named:
        raise OptionError(
            f"table '{table.display}' needs the option 'nameServerAddress'",
            hint="for example 'nameServerAddress' = 'localhost:9876'",
            subject="nameServerAddress",
        )
    client = RocketClient(
        named,
        _account(table, options),
        _tls(table, options),
        integer_of(options, "requestTimeout") / 1000,
    )
    return RocketTopic(client, table.options["topic"], group or _GROUP)


def check_files(table: Table, options: Mapping[str, object], files: FileAccess) -> None:
    """Raises PlanError for a certificate or key in a file that SQL may not use."""
    for option in _FILES:
        if path := text_of(options, option):
            files.check_file(Path(path), table=table.display, option=option)


def _account(table: Table, options: Mapping[str, object]) -> Account:
    access, secret = text_of(options, "accessKey"), text_of(options, "secretKey")
    if bool(access) != bool(secret):
        missing = "secretKey" if access else "accessKey"
        raise OptionError(f"table '{table.display}' needs the option '{missing}'", subject=missing)
    return Account(access, secret, text_of(options, "securityToken"))


def _tls(table: Table, options: Mapping[str, object]) -> Tls | None:
    if not options["tls.enable"]:
        return None
    names = (*_FILES, "tls.client.keyPassword")
    trusted, certificate, key, password = (text_of(options, name) for name in names)
    verify = bool(options["tls.client.authServer"])
    tls = Tls(trusted, certificate, key, password, verify)
    try:
        tls.context()
    except OSError as error:  # ssl.SSLError is one
        raise PlanError(
            f"a certificate or key of table '{table.display}' cannot be used", detail=str(error)
        ) from None
    return tls


def filter_of(table: Table, options: Mapping[str, object]) -> Filter:
    """Returns which messages a table reads. OptionError where it says that twice."""
    tag, sql = text_of(options, "tag"), text_of(options, "sql")
    if tag and sql:
        raise OptionError(
            f"options 'tag' and 'sql' of table '{table.display}' exclude each other",
            hint="a condition can name tags: TAGS IN ('a', 'b')",
            subject="sql",
        )
    return Filter(sql, sql=True) if sql else Filter(tag) if tag else ALL


def time_of(options: Mapping[str, object], *names: str) -> int | None:
    """Returns the first time (ms) that one of these options tells."""
    zone = options["timeZone"]
    assert isinstance(zone, ZoneInfo)
    for name in names:
        value = options[name]
        if isinstance(value, datetime):
            return int(value.replace(tzinfo=zone).timestamp() * 1000)
        if isinstance(value, int):
            return value
    return None
