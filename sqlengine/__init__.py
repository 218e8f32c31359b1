"""Streaming SQL in one light process: Flink SQL statements by the thousand, changed while they
run.

This package is the whole public interface; what stands in its modules may change. Each name is
loaded on first use, so that `import sqlengine` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
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
    from sqlengine.broker.consumer import Consumer
    from sqlengine.broker.errors import Fenced
    from sqlengine.client import Refused, Unreachable
    from sqlengine.config import Config
    from sqlengine.connection import Connection, JobInfo, JobResult, TopicRecord, connect
    from sqlengine.engine import Engine
    from sqlengine.functions.sdk import sink, udaf, udf, udtf

__version__ = "0.1.0"
__all__ = [
    "Config",
    "Connection",
    "Consumer",
    "Engine",
    "ExecutionError",
    "Fenced",
    "JobError",
    "JobInfo",
    "JobResult",
    "ParseError",
    "PlanError",
    "Refused",
    "ServiceError",
    "SqlError",
    "TopicRecord",
    "Unreachable",
    "__version__",
    "connect",
    "sink",
    "udaf",
    "udf",
    "udtf",
]

# Name -> the module that has it; the others are errors.
_MODULES = {
    "Config": "sqlengine.config",
    "Connection": "sqlengine.connection",
    "Consumer": "sqlengine.broker.consumer",
    "Engine": "sqlengine.engine",
    "Fenced": "sqlengine.broker.errors",
    "JobInfo": "sqlengine.connection",
    "JobResult": "sqlengine.connection",
    "Refused": "sqlengine.client",
    "TopicRecord": "sqlengine.connection",
    "Unreachable": "sqlengine.client",
    "connect": "sqlengine.connection",
    "sink": "sqlengine.functions.sdk",
    "udaf": "sqlengine.functions.sdk",
    "udf": "sqlengine.functions.sdk",
    "udtf": "sqlengine.functions.sdk",
}

if not TYPE_CHECKING:  # a type checker knows the names above, and refuses any other

    def __getattr__(name: str) -> object:
        """Loads an exported name on first use (PEP 562)."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        if name in _MODULES:
            module = import_module(_MODULES[name])
        else:
            from parser import errors as module
        globals()[name] = value = getattr(module, name)
        return value


def __dir__() -> list[str]:
    return sorted(globals().keys() | set(__all__))
