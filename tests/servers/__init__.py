"""The real servers that tests of connectors talk to: how each is installed, started and stopped."""

from __future__ import annotations
