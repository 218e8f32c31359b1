"""Few rows and many: which way a table goes for a number of rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlengine.state import index, keys


@contextmanager
def few_rows(most: int) -> Iterator[None]:
    """Has at most so many rows, in the body, looked for one after the other."""
    before = index.FEW
    for module in (index, keys):
        vars(module)["FEW"] = most
    try:
        yield
    finally:
        for module in (index, keys):
            vars(module)["FEW"] = before
