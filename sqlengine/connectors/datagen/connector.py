"""The connector 'datagen': generated rows, by Flink's options.

Row `n` depends on `n` and the option 'seed' only, so that a replay gives equal rows. The clock
decides how many rows there are at a time: 'rows-per-second' of them since the table was opened.
Random timestamps do not read the clock either (Flink's do): they go on from 'timestamps.start'
at the rate of the rows, less up to 'max-past'."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar

import pyarrow as pa

from parser.errors import OptionError
from parser.limits import present
from parser.types import Root
from planner.capabilities import Boundedness, Capabilities, SourceCapabilities
from planner.catalog import Table
from sqlengine.connectors.base import Connector, Source
from sqlengine.connectors.chunks import Chunk
from sqlengine.connectors.datagen.sizes import size_of
from sqlengine.connectors.datagen.values import Field, Rows, maker
from sqlengine.connectors.environment import Environment
from sqlengine.connectors.registry import options_of
from sqlengine.formats.base import Option
from sqlengine.formats.options import at_least, boolean, choice, duration, integer, number
from sqlengine.formats.times import SQL, parse_timestamp

_SHARD = "0"
# A read makes so much less than a column may have: it is done within a second, and takes as much
# memory again several times.
_MAKING = 8


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
        fields = [Field(c.name, c.type, i, options) for i, c in enumerate(table.physical)]
        self._makers = {field.name: maker(field, rows) for field in fields}
        ends += [field.length for field in fields if field.length is not None]
        self._most_rows = max(1, present().column_size // (_MAKING * _row_size(fields)))
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


def _row_size(fields: Iterable[Field]) -> int:
    """Returns the bytes of a row. OptionError where a value is beyond 'value-size', or all of a row
    are beyond 'column-size'."""
    limits, row = present(), 0
    for field in fields:
        size = size_of(field)
        if size > limits.value_size:
            raise OptionError(
                f"values of column '{field.name}' would have {size:,} bytes,"
                f" at most {limits.value_size:,} are allowed ('value-size')",
                hint=f"make 'fields.{field.name}.length' less, or that of its parts",
                subject=f"fields.{field.name}.length",
            )
        row += size
    if row > limits.column_size:
        raise OptionError(
            f"a row would have {row:,} bytes, at most {limits.column_size:,} are allowed"
            " ('column-size')",
            hint="make 'fields.COLUMN.length' less",
        )
    return max(1, row)


def _whole(value: object) -> int:
    assert isinstance(value, int)
    return value
