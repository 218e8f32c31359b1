"""The tables of shadows: what a version would write if it were live, and beside it what the live
version writes, each in a topic of the system.

No text can name this connector: plans of shadows do (`sqlengine.jobs.shadow_plans`). A record is a
row as JSON with what it is a row of, and its key the rule and the version of the shadow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import ClassVar, Final

import msgspec
import pyarrow as pa

from parser.errors import SqlError
from parser.types import Schema
from planner.capabilities import Capabilities, SinkCapabilities
from planner.catalog import Table
from planner.logical.change_kinds import AS_REQUESTED
from sqlengine.batch import Batch, RowKind
from sqlengine.broker.base import Broker
from sqlengine.connectors.base import Connector, Sink
from sqlengine.connectors.encoded import definition_digest
from sqlengine.connectors.environment import Environment, is_rehearsal
from sqlengine.formats.base import Option
from sqlengine.formats.json_encode import JsonEncoder, Writing
from sqlengine.formats.results import column_to_json

CONNECTOR: Final = "_shadow"
# What shadows give, and what the live versions give as long as they have a shadow.
SHADOW_ROWS: Final = "_shadow"
LIVE_ROWS: Final = "_shadow_live"
# The column that says what a row is of.
ABOUT: Final = "$shadow"
_RETENTION: Final = 1 << 30  # bytes


class About(msgspec.Struct, frozen=True, array_like=True):
    """The origin of a row: a `version` of a rule, the shadow or the live one beside the `shadow`.
    `varying`: the columns that are not compared."""

    rule: str
    version: int
    shadow: int
    varying: tuple[str, ...] = ()

    def written(self) -> str:
        """Returns the text that is in the rows."""
        return msgspec.json.encode(self).decode()


@lru_cache(maxsize=4096)
def _about(text: str) -> About:
    return msgspec.json.decode(text, type=About)


class ShadowConnector(Connector):
    """Opens the topics of shadows. `table`: where their rows would go; whose they are is in each
    row (`ABOUT`)."""

    name: ClassVar[str] = CONNECTOR
    options: ClassVar = {"topic": Option(), "table": Option()}
    capabilities: ClassVar[Capabilities] = Capabilities(
        sink=SinkCapabilities(changelog=AS_REQUESTED, parallel=True), blocks=False
    )

    def sink(self, table: Table, environment: Environment) -> Sink:
        broker = environment.broker
        if broker is None:
            raise SqlError("a shadow runs in a server")
        if not is_rehearsal():
            topic = table.options["topic"]
            broker.create_topic(topic, retention_bytes=_RETENTION, if_not_exists=True)
        return ShadowSink(broker, table, environment.writer, environment.clock)


class ShadowSink(Sink):
    """Buffers an epoch's records until its commit, which appends them once."""

    def __init__(self, broker: Broker, table: Table, writer: str, clock: Callable[[], int]) -> None:
        self._broker = broker
        self._topic, self._table = table.options["topic"], table.options["table"]
        # One for each table: they write to one topic, and in the same epochs.
        self._writer = f"{writer}/{definition_digest(table)}"
        self._clock = clock
        self._rows = _encoder(Schema(tuple(c for c in table.schema if c.name != ABOUT)))
        self._pending: list[dict[str, object]] = []
        self._keys: list[bytes] = []
        self._time = 0

    def last_epoch(self) -> int | None:
        return self._broker.last_epoch(self._topic, 0, self._writer)

    def write(self, batch: Batch) -> None:
        if not batch.num_rows:
            return
        kinds = [0] * batch.num_rows if batch.kinds is None else batch.kinds.tolist()
        whose = map(_about, batch.column(ABOUT).to_pylist())
        for about, kind, row in zip(whose, kinds, self._rows(batch), strict=True):
            record = {"rule": about.rule, "version": about.version, "table": self._table}
            more = {"varying": about.varying} if about.varying else {}
            change = {"kind": RowKind(kind).short, "time": batch.proctime, "row": row}
            self._pending.append({**record, **change, **more})
            self._keys.append(shadow_key(about.rule, about.shadow))
        self._time = max(self._time, batch.proctime)

    def commit(self, epoch: int) -> int:
        if not self._pending:
            return 0
        done = self._broker.append(
            self._topic,
            0,
            [msgspec.json.encode({**record, "epoch": epoch}) for record in self._pending],
            keys=self._keys,
            timestamp_ms=self._time or self._clock(),
            writer=self._writer,
            epoch=epoch,
        )
        written = len(self._pending)
        self._pending, self._keys, self._time = [], [], 0
        return 0 if done.duplicate else written

    def close(self) -> None: ...


def shadow_key(rule: str, version: int) -> bytes:
    """Returns the key of all records of a shadow, and of the live version beside it."""
    return msgspec.json.encode((rule, version))


def _encoder(schema: Schema) -> Callable[[Batch], Sequence[object]]:
    """Returns a function from rows to JSON objects: as tables with 'format' = 'json' have them,
    where these can have all columns."""
    try:
        encoder = JsonEncoder(schema, Writing())
    except SqlError:
        return lambda batch: _as_shown(schema, batch)
    return lambda batch: [msgspec.Raw(row) for row in _encoded(encoder, schema, batch).to_pylist()]


def _encoded(encoder: JsonEncoder, schema: Schema, batch: Batch) -> pa.Array:
    return encoder.encode(batch.with_columns(schema, [batch.column(n) for n in schema.names]))


def _as_shown(schema: Schema, batch: Batch) -> Sequence[object]:
    columns = [column_to_json(batch.column(c.name), c.type) for c in schema]
    rows = zip(*columns, strict=True)
    return [dict(zip(schema.names, row, strict=True)) for row in rows]
