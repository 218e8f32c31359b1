"""The servers of these tests are those of tests/service: one per module, clean before each test."""

from __future__ import annotations

from tests.service.conftest import data, server, user

__all__ = ["data", "server", "user"]
