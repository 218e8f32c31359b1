"""Plans as text: for every `.sql` file of a folder, what the pass of that name makes of each
statement (in `binder`: what the statement is bound to). The expected text is beside it in a `.plan`
file; `pytest --update` writes it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from parser import parse
from parser.script import split
from parser.statements import Insert, Query, Statement, StatementSet
from planner import bind, explain
from planner.catalog import Catalog, Table
from planner.logical import LogicalPlan
from planner.optimizer import PASSES
from sqlengine.connectors.registry import declared
from tests.planning import analyzed

FOLDER = Path(__file__).parent
NAMES = [p.__name__ for p in PASSES]


def tables() -> Catalog:
    catalog = Catalog()
    for statement in parse((FOLDER / "tables.sql").read_text()):
        bound = bind(statement, catalog, {})
        assert not isinstance(bound, tuple)
        catalog = catalog.put(
            declared(bound) if isinstance(bound, Table) and _of_its_own(bound) else bound
        )
    return catalog


def _of_its_own(table: Table) -> bool:
    """True for a table whose connector says more of it than the declaration."""
    return bool(table.partition_keys) or table.connector == "jdbc"


def plans(statement: Statement, folder: str, catalog: Catalog) -> Iterator[str]:
    assert isinstance(statement, Query | Insert | StatementSet)
    if folder == "binder":
        for sink in bind(statement, catalog, {}, job="job"):
            yield explain(sink) + f"\n  : {sink.schema}"
    else:
        yield before_and_after(analyzed(statement, catalog, job="job"), NAMES.index(folder))


def before_and_after(plan: LogicalPlan, index: int) -> str:
    """The plan after all passes before this one, and after this one; no later pass runs."""
    for run in PASSES[:index]:
        plan = run(plan)
    after = PASSES[index](plan)
    assert after.schema == plan.schema
    changed = after.digest != plan.digest
    return f"{explain(plan)}\n-->\n{explain(after) if changed else '(unchanged)'}"


@pytest.mark.parametrize(
    "path", sorted(FOLDER.glob("*/*.sql")), ids=lambda p: f"{p.parent.name}/{p.stem}"
)
def test_plans(path: Path, update: bool) -> None:
    catalog = tables()
    parts = []
    script = path.read_text()
    for statement, piece in zip(parse(script), split(script), strict=True):
        parts += [
            f"{piece.sql}\n\n{text}\n" for text in plans(statement, path.parent.name, catalog)
        ]
    result = "\n".join(parts)
    expected = path.with_suffix(".plan")
    if update:
        expected.write_text(result)
    assert result == expected.read_text()


def test_every_pass_has_plans() -> None:
    assert sorted({p.parent.name for p in FOLDER.glob("*/*.sql")} - {"binder"}) == sorted(NAMES)
