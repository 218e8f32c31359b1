"""A connector for files that goes wrong as its tables say, in the driver or in Python workers of
Spark, where no test reaches it otherwise."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from planner.catalog import Table
from sqlengine.connectors.base import Sink, Source
from sqlengine.connectors.environment import Environment
from sqlengine.connectors.filesystem.connector import FilesystemConnector
from sqlengine.formats.base import Option
from tests.hostile.injector import RAISES, Fault, Faulty

NAME = "faulty"


class Worse(Fault):
    """A fault that may also end the process, always or once, and ask for more memory than there
    is."""

    def strike(self, work: Callable[[], Any]) -> Any:
        if self.how == "memory":
            return len(bytearray(1 << 34))
        if self.how == "die":
            os._exit(7)
        if self.how == "die once":
            marker = Path(str(self.answer))
            if not marker.exists():
                marker.touch()
                os._exit(7)
            return work()
        return super().strike(work)


class FaultyConnector(FilesystemConnector):
    """`fault.method` goes wrong as `fault.how` says, in a 'task' or the 'driver'."""

    name: ClassVar[str] = NAME
    options: ClassVar[Mapping[str, Option]] = {
        **FilesystemConnector.options,
        "fault.where": Option(doc="task or driver"),
        "fault.method": Option(doc="of source or sink"),
        "fault.how": Option(doc="an exception, hang, nonsense, memory, die, die once"),
    }

    def source(self, table: Table, environment: Environment) -> Source:
        return self._with_fault(
            table, environment, lambda t: super(type(self), self).source(t, environment)
        )

    def sink(self, table: Table, environment: Environment) -> Sink:
        return self._with_fault(
            table, environment, lambda t: super(type(self), self).sink(t, environment)
        )

    def _with_fault(
        self, table: Table, environment: Environment, opens: Callable[[Table], Any]
    ) -> Any:
        where = "driver" if environment.writer else "task"
        if table.options.get("fault.where") != where:
            return opens(table)
        how = table.options["fault.how"]
        marker = str(Path(table.options["path"]).parent / "died")
        fault = Worse(
            table.options["fault.method"],
            how,
            "rows" if how not in RAISES and how != "die once" else marker,
        )
        if fault.method == "open":
            return fault.strike(lambda: opens(table))
        return Faulty(opens(table), lambda: fault)
