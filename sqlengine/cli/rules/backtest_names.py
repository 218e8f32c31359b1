"""The names of tables and columns in the options of `sql backtest`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

import click

from parser.errors import ServiceError
from sqlengine.cli.options import pairs

if TYPE_CHECKING:
    from sqlengine.trial.rules import TrialRule


def archives_of(tables: Sequence[str]) -> dict[str, Path]:
    """Returns the files that stand in for tables. ServiceError where one is not there."""
    archives = {name: Path(path) for name, path in pairs("--table", tuple(tables)).items()}
    for name, path in archives.items():
        if not path.exists():
            raise ServiceError(f"there is no file or folder '{path}' for table '{name}'")
    return archives


def check_names(
    rules: Mapping[str, TrialRule], tables: Iterable[str], columns: Iterable[str]
) -> None:
    """Raises BadParameter for a table that no rule knows (`--table`), which would be read from
    where its text says, and for a column that no alert has (`--top`)."""
    from planner.catalog import Table

    catalogs = {id(r.catalog.catalog): r.catalog.catalog for r in rules.values()}.values()
    items = [o for c in catalogs for o in (*c.objects.values(), *c.temporary.values())]
    found = [item for item in items if isinstance(item, Table)]
    shown = {t.display for t in found}
    _check("--table", "table", tables, shown, shown | {".".join(t.name) for t in found})
    of_alerts = {column for r in rules.values() for t in r.writes for column in t.schema.names}
    _check("--top", "column of an alert", columns, of_alerts, of_alerts)


def _check(
    option: str, what: str, names: Iterable[str], shown: Collection[str], known: Collection[str]
) -> None:
    for name in names:
        if name not in known:
            near = get_close_matches(name, shown, 1)
            told = f"did you mean '{near[0]}'?" if near else f"there is {', '.join(sorted(shown))}"
            raise click.BadParameter(f"'{name}' is no {what}: {told}", param_hint=option)
