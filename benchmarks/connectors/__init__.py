"""Connectors to other systems, beside bare clients of the same records."""

from __future__ import annotations
