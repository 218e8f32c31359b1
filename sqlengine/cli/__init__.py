"""The command line: `sql`, and `sqlengine` as a second name; a file for each family of commands."""

from __future__ import annotations

from sqlengine.cli.sql import cli, main

__all__ = ["cli", "main"]
