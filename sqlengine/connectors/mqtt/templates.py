"""Topics of rows: a text in which {column} stands for a value."""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from parser.errors import ColumnError, OptionError
from parser.types import Root
from planner.catalog import Table
from sqlengine.batch import Batch
from sqlengine.connectors.mqtt.topics import name_error
from sqlengine.formats.options import did_you_mean

_COLUMN: Final = re.compile(r"\{([^{}]*)\}")
_KINDS: Final = (Root.CHAR, Root.VARCHAR, Root.BOOLEAN, Root.DATE)


class TopicTemplate:
    """Makes the topic of each row. PlanError for a column that the table does not have, or whose
    values are no texts and no numbers without fractions."""

    def __init__(self, table: Table) -> None:
        self._texts = _COLUMN.split(table.options["topic"])
        self._columns = self._texts[1::2]
        for name in self._columns:
            if name not in table.physical:
                raise OptionError(
                    f"option 'topic' of table '{table.display}' names no column '{name}'",
                    hint=did_you_mean(name, table.physical.names),
                    subject="topic",
                )
            kind = table.physical.type(name)
            if kind.root not in _KINDS and not kind.is_integer:
                raise ColumnError(
                    f"column '{name}' of table '{table.display}' cannot be part of a topic",
                    detail=f"it is {kind}; texts, whole numbers, BOOLEAN and DATE can",
                    hint=f"declare it as one of these, or leave {{{name}}} out of 'topic'",
                    subject=name,
                )
        if not self._columns and (wrong := name_error(table.options["topic"])) is not None:
            what = f"option 'topic' of table '{table.display}' is wrong"
            raise OptionError(what, detail=wrong, subject="topic")

    def topics(self, rows: Batch) -> pa.Array:
        """Returns the topic of each row; NULL where one of its columns is."""
        parts: list[object] = []
        for index, text in enumerate(self._texts):
            if index % 2:
                parts.append(rows.column(text).cast(pa.string()))
            else:
                parts.append(pa.scalar(text, pa.string()))
        if not self._columns:
            return pa.repeat(parts[0], rows.num_rows)
        return pc.binary_join_element_wise(*parts, pa.scalar("", pa.string()))

    def errors(self, rows: Batch) -> dict[int, str]:
        """Returns why some rows cannot be published, by row."""
        if not self._columns or not rows.num_rows:
            return {}
        coded = self.topics(rows).dictionary_encode()
        wrong = [name_error(name) for name in coded.dictionary.to_pylist()]
        if not any(wrong) and not coded.indices.null_count:
            return {}
        found: dict[int, str] = {}
        for row, index in enumerate(coded.indices.to_pylist()):
            if index is None:
                found[row] = f"{self._missing(rows, row)} is NULL, and part of the topic"
            elif (reason := wrong[index]) is not None:
                found[row] = reason
        return found

    def _missing(self, rows: Batch, row: int) -> str:
        null = (name for name in self._columns if not rows.column(name)[row].is_valid)
        return f"column '{next(null)}'"
