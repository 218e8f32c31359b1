"""Streaming SQL in one light process: Flink SQL statements by the thousand, changed while they
run.

This package is the whole public interface; what stands in its modules may change. Each name is
loaded on first use, so that `import sqlengine` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from parser.errors import (
        ExecutionError,
        JobError,
        ParseError,
        PlanError,
        ServiceError,
        SqlError,
    )
    from planner.capabilities import (
        Capabilities,
        DeliveryGuarantee,
        SinkCapabilities,
        SourceCapabilities,
    )
    from planner.catalog import Table
    from planner.logical.change_kinds import ChangelogMode
    from sqlengine.batch import Batch, RowKind
    from sqlengine.broker.consumer import Consumer
    from sqlengine.broker.errors import Fenced, Unreachable
    from sqlengine.client import Refused
    from sqlengine.config import Config
    from sqlengine.connection.base import Connection
    from sqlengine.connection.connecting import connect
    from sqlengine.connection.feeds import Feed
    from sqlengine.connection.jobs import Job, JobInfo, JobResult, Jobs, Rule, Version
    from sqlengine.connection.magic import Shell
    from sqlengine.connection.progress import Progress
    from sqlengine.connection.results import Result
    from sqlengine.connection.rows import Row
    from sqlengine.connection.streams import KeyedStream, Stream
    from sqlengine.connection.topics import Topic, TopicRecord, Topics
    from sqlengine.connection.windows import cumulate, hop, sessions, tumble
    from sqlengine.connectors.base import Connector, Sink, Source
    from sqlengine.connectors.chunks import Chunk
    from sqlengine.connectors.environment import Environment
    from sqlengine.engine import Engine
    from sqlengine.formats.base import (
        BadRecord,
        DataType,
        Decoded,
        Decoder,
        Encoder,
        Format,
        FormatCapabilities,
        Option,
        Schema,
    )
    from sqlengine.functions.process_sdk import ProcessContext, TableRow, process_function
    from sqlengine.functions.sdk import async_udf, async_udtf, sink, udaf, udf, udtf
    from sqlengine.functions.state_views import ListView, MapView, ValueView

__version__ = "0.1.0"
__all__ = [
    "BadRecord",
    "Batch",
    "Capabilities",
    "ChangelogMode",
    "Chunk",
    "Config",
    "Connection",
    "Connector",
    "Consumer",
    "DataType",
    "Decoded",
    "Decoder",
    "DeliveryGuarantee",
    "Encoder",
    "Engine",
    "Environment",
    "ExecutionError",
    "Feed",
    "Fenced",
    "Format",
    "FormatCapabilities",
    "Job",
    "JobError",
    "JobInfo",
    "JobResult",
    "Jobs",
    "KeyedStream",
    "ListView",
    "MapView",
    "Option",
    "ParseError",
    "PlanError",
    "ProcessContext",
    "Progress",
    "Refused",
    "Result",
    "Row",
    "RowKind",
    "Rule",
    "Schema",
    "ServiceError",
    "Sink",
    "SinkCapabilities",
    "Source",
    "SourceCapabilities",
    "SqlError",
    "Stream",
    "Table",
    "TableRow",
    "Topic",
    "TopicRecord",
    "Topics",
    "Unreachable",
    "ValueView",
    "Version",
    "__version__",
    "async_udf",
    "async_udtf",
    "connect",
    "cumulate",
    "hop",
    "process_function",
    "sessions",
    "sink",
    "tumble",
    "udaf",
    "udf",
    "udtf",
]

# Name -> the module that has it; the others come from `_inner_module`.
_MODULES = {
    "BadRecord": "sqlengine.formats.base",
    "Batch": "sqlengine.batch",
    "Chunk": "sqlengine.connectors.chunks",
    "Config": "sqlengine.config",
    "Connection": "sqlengine.connection.base",
    "Connector": "sqlengine.connectors.base",
    "Consumer": "sqlengine.broker.consumer",
    "DataType": "sqlengine.formats.base",
    "Decoded": "sqlengine.formats.base",
    "Decoder": "sqlengine.formats.base",
    "Encoder": "sqlengine.formats.base",
    "Engine": "sqlengine.engine",
    "Environment": "sqlengine.connectors.environment",
    "Feed": "sqlengine.connection.feeds",
    "Fenced": "sqlengine.broker.errors",
    "Format": "sqlengine.formats.base",
    "FormatCapabilities": "sqlengine.formats.base",
    "Job": "sqlengine.connection.jobs",
    "JobInfo": "sqlengine.connection.jobs",
    "JobResult": "sqlengine.connection.jobs",
    "Jobs": "sqlengine.connection.jobs",
    "KeyedStream": "sqlengine.connection.streams",
    "ListView": "sqlengine.functions.state_views",
    "MapView": "sqlengine.functions.state_views",
    "Option": "sqlengine.formats.base",
    "ProcessContext": "sqlengine.functions.process_sdk",
    "Progress": "sqlengine.connection.progress",
    "Refused": "sqlengine.client",
    "Result": "sqlengine.connection.results",
    "Row": "sqlengine.connection.rows",
    "RowKind": "sqlengine.batch",
    "Rule": "sqlengine.connection.jobs",
    "Schema": "sqlengine.formats.base",
    "Sink": "sqlengine.connectors.base",
    "Source": "sqlengine.connectors.base",
    "Stream": "sqlengine.connection.streams",
    "TableRow": "sqlengine.functions.process_sdk",
    "Topic": "sqlengine.connection.topics",
    "TopicRecord": "sqlengine.connection.topics",
    "Topics": "sqlengine.connection.topics",
    "Unreachable": "sqlengine.broker.errors",
    "ValueView": "sqlengine.functions.state_views",
    "Version": "sqlengine.connection.jobs",
    "async_udf": "sqlengine.functions.sdk",
    "async_udtf": "sqlengine.functions.sdk",
    "connect": "sqlengine.connection.connecting",
    "cumulate": "sqlengine.connection.windows",
    "hop": "sqlengine.connection.windows",
    "process_function": "sqlengine.functions.process_sdk",
    "sessions": "sqlengine.connection.windows",
    "sink": "sqlengine.functions.sdk",
    "tumble": "sqlengine.connection.windows",
    "udaf": "sqlengine.functions.sdk",
    "udf": "sqlengine.functions.sdk",
    "udtf": "sqlengine.functions.sdk",
}


def load_ipython_extension(shell: Shell) -> None:
    """Makes `%%sql` known to a notebook: `%load_ext sqlengine`."""
    from sqlengine.connection.magic import load

    load(shell)


def _inner_module(name: str) -> ModuleType:
    """Returns the module of the inner packages that has an exported name. They have other names in
    the wheel, which import statements know and strings do not."""
    from parser import errors

    if name in vars(errors):  # a client needs no planner
        return errors
    from planner import capabilities, catalog
    from planner.logical import change_kinds

    return next(m for m in (capabilities, catalog, change_kinds) if name in vars(m))


if not TYPE_CHECKING:  # a type checker knows the names above, and refuses any other

    def __getattr__(name: str) -> object:
        """Loads an exported name on first use (PEP 562)."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        if name in _MODULES:
            module = import_module(_MODULES[name])
        else:
            module = _inner_module(name)
        globals()[name] = value = getattr(module, name)
        return value


def __dir__() -> list[str]:
    return sorted(globals().keys() | set(__all__))
