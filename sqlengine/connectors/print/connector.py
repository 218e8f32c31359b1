"""The connector 'print': a sink that writes rows as Flink does, `+I[1, null,
2020-01-02T12:34:56.700]`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from planner.capabilities import Capabilities, DeliveryGuarantee, SinkCapabilities
from planner.catalog import Table
from planner.logical.change_kinds import AS_REQUESTED
from sqlengine.batch import Batch, RowKind
from sqlengine.connectors.base import Connector, Sink
from sqlengine.connectors.environment import Environment
from sqlengine.connectors.print.values import printer
from sqlengine.connectors.registry import options_of
from sqlengine.formats.base import Option
from sqlengine.formats.options import at_least, boolean


class PrintConnector(Connector):
    """Opens sinks that print. `standard-error` and `sink.parallelism` are Flink's options,
    without effect: the environment decides where the lines go."""

    name: ClassVar[str] = "print"
    options: ClassVar[Mapping[str, Option]] = {
        "print-identifier": Option(doc="stands before each line"),
        "standard-error": Option(boolean, default="false"),
        "sink.parallelism": Option(at_least(1)),
    }
    capabilities: ClassVar[Capabilities] = Capabilities(
        blocks=False,
        sink=SinkCapabilities(
            changelog=AS_REQUESTED,
            guarantee=DeliveryGuarantee.AT_LEAST_ONCE,
            condition="rows since the last checkpoint are printed again after a crash",
        ),
    )

    def sink(self, table: Table, environment: Environment) -> Sink:
        identifier = options_of(table)["print-identifier"]
        return PrintSink(table, f"{identifier}> " if identifier else "", environment.print_line)


class PrintSink(Sink):
    """Prints rows at the commit: a crash before it prints nothing, one after it may print lines
    again."""

    def __init__(self, table: Table, prefix: str, print_line: Callable[[str], None]) -> None:
        self._names = table.physical.names
        self._printers = [printer(c.type) for c in table.physical]
        self._prefix = prefix
        self._print = print_line
        self._lines: list[str] = []

    def last_epoch(self) -> int | None:
        return None

    def write(self, batch: Batch) -> None:
        columns = [p(batch.column(n)) for p, n in zip(self._printers, self._names, strict=True)]
        kinds = (
            ["+I"] * batch.num_rows
            if batch.kinds is None
            else [RowKind(k).short for k in batch.kinds.tolist()]
        )
        rows = zip(*columns, strict=True) if columns else [()] * batch.num_rows
        self._lines += [
            f"{self._prefix}{k}[{', '.join(r)}]" for k, r in zip(kinds, rows, strict=True)
        ]

    def commit(self, epoch: int) -> int:
        lines, self._lines = self._lines, []
        for line in lines:
            self._print(line)
        return len(lines)

    def close(self) -> None: ...
