"""Messages of rows: their bodies, properties, and what chooses the queue of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from xxhash import xxh64_intdigest

from parser.errors import ExecutionError, OptionError, SqlError, UnsupportedColumn
from parser.types import Schema
from planner.catalog import MetadataColumn, Table
from sqlengine.batch import Batch
from sqlengine.broker.rocketmq.messages import DELAY_MS, DELIVER_AT, KEYS, TAGS, property_text
from sqlengine.connectors.encoded import RowEncoder
from sqlengine.connectors.metadata_types import not_written
from sqlengine.connectors.rocketmq.options import integer_of
from sqlengine.connectors.rocketmq.rows import SYSTEM
from sqlengine.connectors.topic.upserts import Upserts, is_upsert
from sqlengine.formats.options import did_you_mean
from sqlengine.formats.registry import encoder_of, value_metadata
from sqlengine.state.keys import check_keys, encode

# Metadata that can be written.
WRITABLE: Final = frozenset({"tags", "keys", "properties", "delivery-timestamp"})


class MessageEncoder(RowEncoder):
    """Makes the messages of a table: their bodies (NULL ends the row of an upsert), their
    properties, and where rows stay together a hash of each row's keys."""

    def __init__(self, table: Table, options: Mapping[str, object]) -> None:
        super().__init__(table)
        self._table = table
        self._most = integer_of(options, "maxMessageSize")
        self._upserts = Upserts(table) if is_upsert(table) else None
        self._keys = _key_columns(table, options)
        self._tag = _tag_column(table, options)
        self._delay = options["delay"]
        self._body = _body_columns(table, options, self._keys, self._tag)
        self._encoder = encoder_of(table, self._body)
        in_format = value_metadata(table)
        written = (m for m in table.metadata if not m.virtual and m not in in_format)
        self._written = {m.key: m for m in written}
        for column in self._written.values():
            _require_writable(column, self)
        self.rows_per_message = integer_of(options, "rowsPerMessage")
        own = self._upserts is not None or self._tag is not None or self._written
        if self.rows_per_message > 1 and (own or self.delays):
            raise OptionError(
                f"rows of table '{table.display}' cannot share messages",
                detail="each has its own key, tag, properties or delay",
                hint="leave 'rowsPerMessage' out",
                subject="rowsPerMessage",
            )

    @property
    def delays(self) -> bool:
        """True if messages may be such that consumers get later."""
        return self._delay is not None or "delivery-timestamp" in self._written

    def sets(self, key: str) -> bool:
        """True if the options say what this metadata is."""
        if key == "tags":
            return self._tag is not None
        return key == "keys" and self._keys is not None

    def encode(self, rows: Batch) -> tuple[pa.Array, ...]:
        """See `RowEncoder`. ExecutionError where a row is no message."""
        body = rows.with_columns(self._body, [rows.column(c.name) for c in self._body])
        values = self._encoder.encode(body)
        sizes = pc.binary_length(values)
        if (largest := pc.max(sizes).as_py() or 0) > self._most:
            raise ExecutionError(
                f"a row is too large for a message of table '{self._table.display}'",
                detail=f"it has {largest} bytes, 'maxMessageSize' is {self._most}",
            )
        if self._upserts is not None:
            values = self._upserts.values(values, rows)
        return values, self._properties(rows), self._hashes(rows)

    def _hashes(self, rows: Batch) -> pa.Array:
        if self._keys is None:
            return pa.nulls(rows.num_rows, pa.uint64())
        columns = [rows.column(c.name) for c in self._keys]
        places = encode([c.type for c in self._keys], columns, rows.num_rows)
        return pa.array(
            np.fromiter((xxh64_intdigest(p, 0) for p in places), np.uint64, rows.num_rows)
        )

    def _properties(self, rows: Batch) -> pa.Array:
        """Returns the properties of each row, as they are sent."""
        columns = self._property_columns(rows)
        users = self._written.get("properties")
        maps = None if users is None else rows.column(users.column.name).to_pylist()
        if not columns and maps is None:
            return pa.repeat(pa.scalar(""), rows.num_rows)
        texts = []
        for row in range(rows.num_rows):
            own = {} if maps is None else _of_users(maps[row])
            own |= {name: v for name, values in columns.items() if (v := values[row]) is not None}
            try:
                texts.append(property_text(own))
            except ValueError as error:
                raise self._no_message(str(error)) from None
        return pa.array(texts, pa.string())

    def _property_columns(self, rows: Batch) -> dict[str, list[str | None]]:
        """Returns the values of the properties that the protocol knows, by name."""
        found: dict[str, list[str | None]] = {}
        for key, name in (("tags", TAGS), ("keys", KEYS)):
            if key in self._written:
                found[name] = _texts(rows, [self._written[key].column.name])
        if self._tag is not None:
            found[TAGS] = _texts(rows, [self._tag])
        if self._upserts is not None:
            found[KEYS] = [k.decode() for k in self._upserts.keys(rows).to_pylist()]
        elif self._keys is not None and self.rows_per_message == 1:
            found[KEYS] = _texts(rows, self._keys.names)
        if "delivery-timestamp" in self._written:
            times = rows.column(self._written["delivery-timestamp"].column.name)
            millis = times.cast(pa.timestamp("ms", times.type.tz), safe=False).cast(pa.int64())
            found[DELIVER_AT] = millis.cast(pa.string()).to_pylist()
        elif self._delay is not None:
            found[DELAY_MS] = [str(self._delay)] * rows.num_rows
        return found

    def _no_message(self, why: str) -> SqlError:
        return ExecutionError(
            f"a row cannot be a message of table '{self._table.display}'", detail=why
        )


def _texts(rows: Batch, names: Sequence[str]) -> list[str | None]:
    """Returns the values of columns as texts, with blanks between them; None where all are NULL."""
    columns = [rows.column(name).cast(pa.string()).to_pylist() for name in names]
    if len(columns) == 1:
        return list(columns[0])
    parts = ([v for v in values if v is not None] for values in zip(*columns, strict=True))
    return [" ".join(found) if found else None for found in parts]


def _of_users(pairs: Sequence[tuple[str, str | None]] | None) -> dict[str, str]:
    """Returns properties of users; those of others cannot be set."""
    return {k: v for k, v in pairs or () if v is not None and k not in SYSTEM}


def _require_writable(column: MetadataColumn, encoder: MessageEncoder) -> None:
    """Raises UnsupportedError for metadata that a message cannot be given, or that it has
    already."""
    if column.key not in WRITABLE:
        raise not_written(column)
    if encoder.sets(column.key):
        raise UnsupportedColumn(
            f"metadata column '{column.column.name}' and an option say what '{column.key}' are",
            hint="declare it METADATA VIRTUAL, or leave the option out",
            subject=column.column.name,
        )


def _key_columns(table: Table, options: Mapping[str, object]) -> Schema | None:
    """Returns the columns of 'keyColumns', or the primary key of upserts. OptionError for one that
    is not there, or is no text."""
    if is_upsert(table):
        return table.physical.select(table.primary_key)
    text = options["keyColumns"]
    if not isinstance(text, str):
        return None
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        _require_text(table, "keyColumns", name)
    keys = table.physical.select(names)
    check_keys(keys)
    return keys


def _tag_column(table: Table, options: Mapping[str, object]) -> str | None:
    name = options["dynamicTagColumn"]
    if not isinstance(name, str):
        if options["isDynamicTag"]:
            raise OptionError(
                f"table '{table.display}' needs the option 'dynamicTagColumn'",
                subject="dynamicTagColumn",
            )
        return None
    _require_text(table, "dynamicTagColumn", name)
    return name


def _require_text(table: Table, option: str, name: str) -> None:
    """Raises OptionError where a table has no such column, or it has values that are no texts."""
    if name not in table.physical:
        raise OptionError(
            f"'{option}' of table '{table.display}' names no column '{name}'",
            hint=did_you_mean(name, table.physical.names),
            subject=option,
        )
    kind = table.physical.select((name,)).columns[0].type
    try:
        pa.nulls(0, kind.arrow).cast(pa.string())
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        raise OptionError(
            f"column '{name}' of table '{table.display}' is {kind}, which is no text",
            subject=option,
        ) from None


def _body_columns(
    table: Table, options: Mapping[str, object], keys: Schema | None, tag: str | None
) -> Schema:
    """Returns the columns that are in the body."""
    left_out: set[str] = set()
    if keys is not None and not options["writeKeysToBody"]:
        left_out.update(keys.names)
    if tag is not None and not options["dynamicTagColumnWriteIncluded"]:
        left_out.add(tag)
    kept = tuple(c for c in table.physical if c.name not in left_out)
    if not kept:
        raise OptionError(f"no column of table '{table.display}' is left for the body")
    return Schema(kept)
