"""What people see when a statement means nothing here or is not there yet: for every `.sql` file of
`errors/binder` the errors of its statements, in order, in a `.txt` file beside it; `pytest
--update` writes it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from parser import parse, parse_pieces
from parser.errors import SqlError, render
from parser.statements import Insert, Query, Statement
from planner import bind
from planner.catalog import Catalog
from tests.planning import analyzed
from tests.support import TESTS

FOLDER = TESTS / "errors" / "binder"
TABLES = FOLDER / "tables.sql"


def tables() -> Catalog:
    catalog = Catalog()
    for statement in parse(TABLES.read_text()):
        bound = bind(statement, catalog, {})
        assert not isinstance(bound, tuple)
        catalog = catalog.put(bound)
    return catalog


def errors(text: str, catalog: Catalog) -> Iterator[str]:
    for piece in parse_pieces(text):
        try:
            if not isinstance(piece, Statement):
                raise piece
            if isinstance(piece, Query | Insert):
                analyzed(piece, catalog)
            else:
                bind(piece, catalog, {})
        except SqlError as error:
            yield render(error, text)
        else:
            yield f"{piece.position}: no error"


@pytest.mark.parametrize("path", sorted(set(FOLDER.glob("*.sql")) - {TABLES}), ids=lambda p: p.stem)
def test_errors(path: Path, update: bool) -> None:
    found = list(errors(path.read_text(), tables()))
    assert not [e for e in found if e.endswith("no error")]
    result = "\n\n".join(found) + "\n"
    expected = path.with_suffix(".txt")
    if update:
        expected.write_text(result)
    assert result == expected.read_text()
