"""A server and the commands, as in tests/cli."""

from __future__ import annotations

from tests.cli.conftest import served, sql
from tests.service.conftest import data, server, user

__all__ = ["data", "served", "server", "sql", "user"]
