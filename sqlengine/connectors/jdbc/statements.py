"""The SQL that a sink sends to its database."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Statements:
    """The statements for one table, `target`, and the table of epochs; names are quoted.

    `conflict`: what an INSERT does with a key that exists; `definition`: a CREATE TABLE that would
    fit."""

    quoted: Callable[[str], str]
    target: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    conflict: str
    insert: str
    delete: str
    probe: str
    make_epochs: str
    last_epoch: str
    note_epoch: str
    definition: str
