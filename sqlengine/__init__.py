"""Streaming SQL in one light process: Flink SQL statements by the thousand, changed while they
run."""

from __future__ import annotations

from sqlengine.functions.sdk import sink, udaf, udf, udtf

__version__ = "0.1.0"
__all__ = ["__version__", "sink", "udaf", "udf", "udtf"]
