"""The engine of a server: takes changes of jobs, puts them into graphs, and knows what runs
where."""

from __future__ import annotations

from sqlengine.engine.engine import Engine

__all__ = ["Engine"]
