"""Bad SQL and the error that people see for it, from data files."""

from __future__ import annotations

from pathlib import Path

import pytest

from parser import parse
from parser.errors import SqlError, render
from tests.parser.cases import check


def _error(sql: str) -> str:
    with pytest.raises(SqlError) as caught:
        parse(sql)
    return render(caught.value, sql)


@pytest.mark.parametrize("path", sorted(Path(__file__).parent.glob("*.sql")), ids=lambda p: p.stem)
def test_errors(path: Path, update: bool) -> None:
    check(path, _error, update)
