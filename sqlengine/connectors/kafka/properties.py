"""The options 'properties.*' of a table as settings of the client: some of Java's client have other
names here, and some belong to the connector."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeAlias

from parser.errors import OptionError
from planner.catalog import Table

Settings: TypeAlias = dict[str, str | int | float | bool]

PREFIX: Final = "properties."
_LARGEST: Final = 1 << 20  # as of the Java client
_NO_CODE: Final = "SQL runs no programs and loads no libraries"
# What the connector decides, and the option to write instead.
_OWNED: Final = {
    "auto.offset.reset": "",  # read by the connector, and not by the client
    "enable.auto.commit": "offsets of 'properties.group.id' are committed with checkpoints",
    "enable.auto.offset.store": "offsets of 'properties.group.id' are committed with checkpoints",
    "enable.partition.eof": "'scan.bounded.mode' says where reading ends",
    "partitioner": "'sink.partitioner' says which partition a record goes to",
    "partitioner.class": "'sink.partitioner' says which partition a record goes to",
    "transactional.id": "'sink.transactional-id-prefix' names the transactions of a sink",
    "enable.idempotence": "'sink.delivery-guarantee' says how often a row is there",
    "delivery.report.only.error": "the connector counts what was delivered",
    "plugin.library.paths": _NO_CODE,
    "ssl.engine.location": _NO_CODE,
    "ssl.providers": _NO_CODE,
    "sasl.kerberos.kinit.cmd": _NO_CODE,
    "key.deserializer": "'key.format' reads the keys",
    "value.deserializer": "'value.format' reads the values",
    "key.serializer": "'key.format' writes the keys",
    "value.serializer": "'value.format' writes the values",
}
# Of the Java client alone; what they say is so, or makes no difference here.
_OF_JAVA: Final = frozenset(
    "max.poll.records client.dns.lookup.timeout.ms exclude.internal.topics default.api.timeout.ms"
    " buffer.memory max.block.ms partition.discovery.interval.ms metadata.max.idle.ms"
    " partitioner.ignore.keys partitioner.adaptive.partitioning.enable"
    " auto.include.jmx.reporter".split()
)
_RENAMED: Final = {
    "sasl.mechanism": "sasl.mechanisms",
    "request.timeout.ms": "socket.timeout.ms",
    "delivery.timeout.ms": "message.timeout.ms",
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "max.partition.fetch.bytes": "fetch.message.max.bytes",
}
_SIZES: Final = ("max.request.size", "message.max.bytes")
# What the client adds to a record, at most, before it compares its size; and the largest size that
# it can be told.
_ADDED, _MOST = 1024, 1_000_000_000
# How options end that name files which the client reads.
_OF_FILES: Final = (".location", ".keytab", ".file")
# Key stores of Java, which the client does not read.
_STORES: Final = {
    "ssl.truststore.location": "'properties.ssl.ca.location' takes certificates as PEM",
    "ssl.truststore.type": "'properties.ssl.ca.location' takes certificates as PEM",
    "ssl.truststore.password": "'properties.ssl.ca.location' takes certificates as PEM",
    "ssl.keystore.type": "'properties.ssl.keystore.location' takes a store as PKCS#12",
}
_JAAS: Final = re.compile(
    r'\b(username|password)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|\'([^\']*)\'|([^\s;]+))'
)


def settings_of(table: Table) -> Settings:
    """Returns the settings of the client that a table's options 'properties.*' are. OptionError for
    one that belongs to the connector, or that the client has no counterpart of."""
    settings: Settings = {}
    for option, text in table.options.items():
        if option.startswith(PREFIX):
            settings |= _setting(option, option.removeprefix(PREFIX), text, table)
    return settings


def largest_record(table: Table) -> int:
    """Returns how many bytes a record may have that is written. OptionError for no number."""
    for name in _SIZES:
        if PREFIX + name in table.options:
            return _bytes(PREFIX + name, table)
    return _LARGEST


def _bytes(option: str, table: Table) -> int:
    try:
        return int(table.options[option])
    except ValueError:
        raise _refused(option, table, "expected a number of bytes") from None


def files_of(table: Table) -> Iterator[tuple[str, Path]]:
    """Yields the files that the client will read, whatever for (certificates, keys, tokens), each
    with the option that names it."""
    for option, text in table.options.items():
        if option.startswith(PREFIX) and option.endswith(_OF_FILES):
            yield option, Path(text)


def offset_reset(table: Table) -> str:
    """Returns where 'group-offsets' begin that are not there: 'earliest', 'latest' or 'none'.
    OptionError for anything else."""
    option = PREFIX + "auto.offset.reset"
    text = table.options.get(option, "latest").strip().lower()
    known = {"earliest": "earliest", "smallest": "earliest", "latest": "latest"}
    known |= {"largest": "latest", "none": "none", "error": "none"}
    if text not in known:
        raise _refused(option, table, "expected 'earliest', 'latest' or 'none'")
    return known[text]


def _setting(option: str, name: str, text: str, table: Table) -> Settings:
    if name == "sasl.jaas.config":
        return _account(option, text, table)
    if name in _OWNED:
        if _OWNED[name]:
            raise _refused(option, table, _OWNED[name])
        return {}
    if name in _STORES:
        raise _refused(option, table, _STORES[name])
    if name in _OF_JAVA:
        return {}
    if name in _SIZES:
        return {"message.max.bytes": min(largest_record(table) + _ADDED, _MOST)}
    if name == "ssl.endpoint.identification.algorithm" and not text.strip():
        return {name: "none"}
    return {_RENAMED.get(name, name): text}


def _account(option: str, text: str, table: Table) -> Settings:
    """Returns the user of a line of JAAS, as the Java client takes it. The text is in no error."""
    found = {m[1]: next(g for g in m.groups()[1:] if g is not None) for m in _JAAS.finditer(text)}
    if found.keys() != {"username", "password"}:
        what = (
            "it names no user of PLAIN or SCRAM; write 'properties.sasl.username' and '….password'"
        )
        raise _refused(option, table, what)
    unescaped = {k: re.sub(r"\\(.)", r"\1", v) for k, v in found.items()}
    return {f"sasl.{name}": value for name, value in unescaped.items()}


def _refused(option: str, table: Table, why: str) -> OptionError:
    message = f"option '{option}' of table '{table.display}' cannot be set so"
    return OptionError(message, detail=why, subject=option)
