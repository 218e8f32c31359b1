"""The services that connectors may use, and how a process names and rehearses what they open."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

import pyarrow as pa
from xxhash import xxh64_hexdigest

from planner.catalog import Table
from planner.graph.distribution import WHOLE, SubtaskAssignment
from sqlengine.broker.auto_create import AutoCreate
from sqlengine.broker.base import Broker
from sqlengine.connectors.boundary.openings import Openings
from sqlengine.connectors.folder_name import writers_name
from sqlengine.connectors.memory.tables import Memory
from sqlengine.connectors.receivers.service import Receivers
from sqlengine.system.disk import MACHINE, Disk
from sqlengine.system.file_access import ANY_FILES, FileAccess
from sqlengine.system.network_access import ANY_HOSTS, NetworkAccess
from sqlengine.system.secrets import Secrets

# What an embedding program takes rows with, by name.
Callables: TypeAlias = Mapping[str, Callable[[pa.RecordBatch], object]]
NO_CALLABLES: Callables = MappingProxyType({})


@dataclass(frozen=True)
class Environment:
    """The services that connectors may use.

    `broker`: None in a script without a data folder; `clock`: ms; `writer`: the graph's id;
    `print_line`: the output stream of `print`; `memory`: tables in memory, None where a process may
    not keep any; `disk`: where files are written; `share`: the shards that are read here, where a
    graph runs in parts; `once`: rows must be visible once, also where a crash repeats their epoch;
    `callables`: the functions of an embedding program that take rows, by name; `auto_create`: for
    tables whose topic is missing; `openings`: where tables are opened, and asked, that may keep
    others waiting; `files`: which of them tables may read and write; `network`: to which hosts they
    may connect; `secrets`: what options refer to, and `written`: the options of the table that is
    opened as its job has them, None where they refer to none; `dimensions`: the folder of versions
    of tables that are looked up (None: there can be none); `any_times`: times in records may be of
    any standard, where a table names none; `receivers`: what takes messages from outside into
    topics (None: another process does, or nobody)."""

    broker: Broker | None
    clock: Callable[[], int]
    writer: str
    print_line: Callable[[str], None] = print
    memory: Memory | None = None
    disk: Disk = MACHINE
    callables: Callables = field(default_factory=lambda: NO_CALLABLES)
    assignment: SubtaskAssignment = WHOLE
    once: bool = True
    auto_create: AutoCreate = field(default_factory=AutoCreate)
    openings: Openings = field(default_factory=Openings)
    files: FileAccess = ANY_FILES
    network: NetworkAccess = ANY_HOSTS
    secrets: Secrets = field(default_factory=Secrets)
    written: Mapping[str, str] | None = None
    dimensions: Path | None = None
    any_times: bool = False
    receivers: Receivers | None = None

    @property
    def outside_writer(self) -> str:
        """The name of the graph where those of other data folders write, too."""
        folder = writers_name(self.broker)
        return f"{folder}/{self.writer}" if folder else self.writer


# Opening a table creates nothing meanwhile, in this thread: a change is rehearsed.
_rehearsal: ContextVar[bool] = ContextVar("rehearsal", default=False)


@contextmanager
def rehearsing() -> Iterator[None]:
    """Opens tables in this thread without creating what they need and is missing; nothing may be
    read or written."""
    token = _rehearsal.set(True)
    try:
        yield
    finally:
        _rehearsal.reset(token)


def is_rehearsal() -> bool:
    """True within `rehearsing`."""
    return _rehearsal.get()


def options_as_written(table: Table, environment: Environment) -> Mapping[str, str]:
    """Returns the options of a table that is opened as its job has them: with references in the
    place of secrets."""
    return table.options if environment.written is None else environment.written


def password_as_written(table: Table, environment: Environment) -> dict[str, str]:
    """Returns the option 'password' of a table, if it has one: for what tables agree on that share
    a connection. A secret counts by its name, so that its new value is the same password."""
    written = options_as_written(table, environment).get("password")
    return {} if written is None else {"password": written}


def writer_of(graph: str, table: Table, *definition: str) -> str:
    """Returns the writer id of a graph's rows to one table, so that two tables of a graph that go
    to the same place have epochs of their own."""
    text = "\0".join([*table.name, str(table.physical), *definition])
    return f"{graph}/{xxh64_hexdigest(text.encode())}"
