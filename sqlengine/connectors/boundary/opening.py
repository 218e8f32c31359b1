"""Opens a table behind the boundary."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TypeVar, cast

from planner.catalog import Table
from planner.logical import Scan
from sqlengine.connectors.base import Connector, Sink, Source
from sqlengine.connectors.boundary.calls import Calls, Opened
from sqlengine.connectors.boundary.openings import Opening, StillOpening
from sqlengine.connectors.boundary.sink import WalledSink
from sqlengine.connectors.boundary.source import walled
from sqlengine.connectors.environment import Environment, is_rehearsal

T = TypeVar("T", Source, Sink)


def behind_boundary(
    table: Table,
    connector: Connector,
    environment: Environment,
    verb: str,
    most_s: float = math.inf,
) -> Calls:
    """Returns the way in which a table will be called: beside, where its connector may block. An
    answer may take `most_s`, if that is less than what the server allows."""
    openings = environment.openings
    can = connector.capabilities
    place = table.options.get("url") or table.options.get("path") or repr(table.options)
    opened = Opened(
        table.display,
        table.connector,
        verb,
        f"{table.connector} {place}",
        min(openings.timeout_s, most_s),
        openings.command,
    )
    reads_topic = can.reads_topics and verb == "read"
    beside = can.blocks and not reads_topic and openings.lanes is not None
    return Calls(opened, openings if beside else None)


def opened_source(
    scan: Scan,
    connector: Connector,
    environment: Environment,
    work: Callable[[], Source],
    *,
    patient: bool,
) -> Source:
    """Opens the source of a scan. Raises as `Openings.open` does."""
    calls = behind_boundary(scan.table, connector, environment, "read")
    return _opened(
        scan.table,
        calls,
        environment,
        lambda: walled(work(), scan, calls),
        (scan.digest,),
        patient=patient,
    )


def opened_sink(
    table: Table,
    connector: Connector,
    environment: Environment,
    work: Callable[[], Sink],
    *,
    overwrite: bool,
    patient: bool,
) -> Sink:
    """Opens a sink. Raises as `Openings.open` does."""
    calls = behind_boundary(table, connector, environment, "written")
    which, opens = (str(table.schema), overwrite), lambda: WalledSink(work(), calls)
    return _opened(table, calls, environment, opens, which, patient=patient)


def begin_sink(
    table: Table,
    connector: Connector,
    environment: Environment,
    work: Callable[[], Sink],
    *,
    overwrite: bool,
) -> None:
    """Begins to open a sink, where its connector may block: `opened_sink` goes on waiting."""
    calls = behind_boundary(table, connector, environment, "written")
    which, opens = (str(table.schema), overwrite), lambda: WalledSink(work(), calls)
    if calls.beside:
        environment.openings.begin(_opening(table, calls, environment, opens, which))


def _opened(
    table: Table,
    calls: Calls,
    environment: Environment,
    work: Callable[[], T],
    which: tuple[object, ...],
    *,
    patient: bool,
) -> T:
    if not calls.beside:
        return calls.guarded("open", work)
    opening = _opening(table, calls, environment, work, which)
    return cast("T", environment.openings.open(opening, patient=patient))


def _opening(
    table: Table,
    calls: Calls,
    environment: Environment,
    work: Callable[[], T],
    which: tuple[object, ...],
) -> Opening:
    opened = calls.opened
    options = tuple(sorted(table.options.items()))
    part: tuple[object, ...] = environment.writer, str(environment.assignment), is_rehearsal()
    return Opening(
        (opened.verb, table.name, options, *part, *which),
        opened.place,
        partial(calls.in_lane, "open", work),
        lambda found: cast("T", found).close(),
        partial(_slow, opened),
        partial(opened.silent, "open"),
        opened.verb == "written",
    )


def _slow(opened: Opened) -> StillOpening:
    return StillOpening(
        f"table '{opened.table}' cannot be {opened.verb}: it is not open yet",
        detail=f"connector '{opened.connector}' has not answered so far",
        hint="see whether the host or the disk behind it is there, and try again",
    )
