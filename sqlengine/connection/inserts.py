"""INSERT over a connection: it becomes a job."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from sqlengine.connection.pages import ArrowPage, Pages

# Comments and blanks in front of a statement.
_BEFORE: Final = r"(?:\s++|--[^\n]*+|/\*.*?\*/)*+"
_INSERT: Final = re.compile(
    _BEFORE + r"(?:INSERT|(?:EXECUTE|BEGIN)\s+STATEMENT\s+SET)\b", re.IGNORECASE | re.DOTALL
)
_OF_SESSION: Final = re.compile(
    _BEFORE + r"(?:SET|RESET|USE|(?:CREATE|DROP)\s+TEMPORARY)\b", re.IGNORECASE | re.DOTALL
)


def is_insert(statement: str) -> bool:
    """True for INSERT and for a statement set."""
    return _INSERT.match(statement) is not None


def of_session(statement: str) -> bool:
    """True for what counts for the statements behind it."""
    return _OF_SESSION.match(statement) is not None


def job_text(said: Sequence[str], statement: str) -> str:
    """The text of a job: what was said before, and the statement."""
    # A comment at the end of one must not hide what stands behind it.
    return "\n;\n".join(s.rstrip().rstrip(";") for s in (*said, statement))


class JobPages(Pages):
    """One row: the name of the job."""

    def __init__(self, name: str) -> None:
        self._name = name

    def turn(self) -> ArrowPage:
        """See `Pages`."""
        batch = pa.RecordBatch.from_pydict({"job": [self._name]})
        about = {"columns": [["job", "STRING"]], "changes": False, "job": self._name}
        return ArrowPage(batch.schema, (batch,), about, last=True)

    def close(self) -> None:
        """See `Pages`: the job goes on."""
