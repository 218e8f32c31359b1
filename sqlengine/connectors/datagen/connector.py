"""The connector 'datagen': generated rows, by Flink's options.

Row `n` depends on `n` and the option 'seed' only, so that a replay gives equal rows. The clock
decides how many rows there are at a time: 'rows-per-second' of them since the table was opened.
Random timestamps do not read the clock either (Flink's do): they go on from 'timestamps.start'
at the rate of the rows, less up to 'max-past'."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

import pyarrow as pa

from parser.errors import OptionError
from parser.limits import present
from parser.types import Root
from planner.capabilities import Boundedness, Capabilities, SourceCapabilities
from planner.catalog import Table
from sqlengine.connectors.base import Connector, Source
from sqlengine.connectors.chunks import Chunk
from sqlengine.connectors.datagen.values import Field, Maker, Rows, maker
from sqlengine.connectors.environment import Environment
from sqlengine.connectors.registry import options_of
from sqlengine.formats.base import Option
from sqlengine.formats.options import at_least, boolean, choice, duration, integer, number
from sqlengine.formats.times import SQL, parse_timestamp

_SHARD = "0"
# Bytes that are taken to make a character.
_MAKING = 16


def rate(text: str) -> float:
    value = number(text)
    if not 0 <= value <= 1:
        raise ValueError("expected a share between 0 and 1")
    return value


def instant(text: str) -> int:
    """Parses `2020-01-02 12:34:56` as ms since 1970, UTC. ValueError for any other text."""
    value = parse_timestamp(text, Root.TIMESTAMP, SQL, 3)
    if value is None:
        raise ValueError("expected a time such as '2020-01-01 00:00:00'")
    return value


class DatagenConnector(Connector):
    """Opens sources of generated rows. `scan.parallelism` has no effect: there is one shard."""

    name: ClassVar[str] = "datagen"
    options: ClassVar[Mapping[str, Option]] = {
        "rows-per-second": Option(at_least(1), default="10000"),
        "number-of-rows": Option(at_least(0), doc="the table is bounded and has so many rows"),
        "scan.parallelism": Option(at_least(1)),
        "seed": Option(integer, default="0", doc="another seed gives other rows"),
        "timestamps.start": Option(
            instant, default="2020-01-01 00:00:00", doc="the time of row 0, in UTC"
        ),
        "fields.#.kind": Option(choice("random", "sequence"), default="random"),
        "fields.#.min": Option(doc="least random number"),
        "fields.#.max": Option(doc="greatest random number"),
        "fields.#.max-past": Option(
            duration, doc="how far random timestamps go back, such as '1 h'"
        ),
        "fields.#.length": Option(
            at_least(1), doc="of random texts and bytes, arrays, maps and multisets"
        ),
        "fields.#.var-len": Option(
            boolean, default="false", doc="random texts have any length up to 'length'"
        ),
        "fields.#.null-rate": Option(rate, default="0", doc="the share of NULLs"),
        "fields.#.start": Option(integer, doc="where the sequence begins"),
        "fields.#.end": Option(integer, doc="where the sequence ends; the table is then bounded"),
    }
    capabilities: ClassVar[Capabilities] = Capabilities(
        source=SourceCapabilities(boundedness=Boundedness.BY_OPTIONS),
        blocks=False,
    )

    def source(self, table: Table, environment: Environment) -> Source:
        """See `Connector`. PlanError where an option does not suit a column's type."""
        return DatagenSource(table, options_of(table), environment.clock)


class DatagenSource(Source):
    """A source with one shard, whose offsets count rows."""

    bounded = False  # unless it has an end

    def __init__(
        self, table: Table, options: Mapping[str, object], clock: Callable[[], int]
    ) -> None:
        self._clock = clock
        self._began: tuple[int, int] | None = None
        self._rate = _whole(options["rows-per-second"])
        count = options["number-of-rows"]
        ends = [] if count is None else [_whole(count)]
        rows = Rows(_whole(options["seed"]), self._rate, _whole(options["timestamps.start"]))
        self._makers: dict[str, Maker] = {}
        for index, column in enumerate(table.physical):
            field = Field(column.name, column.type, index, options)
            self._makers[column.name] = maker(field, rows)
            if field.length is not None:
                ends.append(field.length)
        self._most_rows = max(1, present().column_size // (_MAKING * _row_length(table, options)))
        self._end = min(ends) if ends else None
        self.bounded = self._end is not None

    def shards(self) -> list[str]:
        return [_SHARD]

    def start(self, shard: str) -> int:
        return 0

    def end(self, shard: str) -> int | None:
        return self._end

    def read(
        self, shard: str, offset: int, *, max_rows: int, until: int | None = None
    ) -> Chunk | None:
        """See `Source`. The first read sets where the rate counts from, so that a job that was down
        does not catch up."""
        if until is None:
            until = min(offset + min(max_rows, self._most_rows), self._due(offset))
            until = until if self._end is None else min(until, self._end)
        if until <= offset:
            return None
        columns: dict[str, pa.Array] = {
            name: make(offset, until) for name, make in self._makers.items()
        }
        return Chunk(shard, offset, until, until - offset, columns=columns)

    def _due(self, offset: int) -> int:
        """Returns the number of the first row whose time has not come, by 'rows-per-second'."""
        now = self._clock()
        if self._began is None:
            self._began = now, offset
        began, first = self._began
        return first + 1 + (now - began) * self._rate // 1000

    def close(self) -> None: ...


def _row_length(table: Table, options: Mapping[str, object]) -> int:
    """The length of a row: characters of its texts, elements of its arrays. PlanError where that of
    a column is beyond 'value-size'."""
    lengths = dict.fromkeys(table.physical.names, 1)
    for key, value in options.items():
        if key.startswith("fields.") and key.endswith(".length") and isinstance(value, int):
            name = key.split(".")[1]
            lengths[name] = lengths.get(name, 1) * value
    most = present().value_size
    for name, length in lengths.items():
        if length > most:
            raise OptionError(
                f"values of column '{name}' would have {length:,} parts, at most {most:,} are"
                " allowed ('value-size')",
                hint=f"make 'fields.{name}.length' less",
                subject=f"fields.{name}.length",
            )
    return sum(lengths.values())


def _whole(value: object) -> int:
    assert isinstance(value, int)
    return value
