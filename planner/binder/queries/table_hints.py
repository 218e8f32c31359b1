"""Hints of a table: /*+ OPTIONS('key' = 'value') */ gives it other options for one statement."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from sqlglot import exp

from parser.dialect import position_of
from parser.errors import PlanError, UnsupportedError
from planner.catalog import Table

# Hints of Flink about how a join is made or where state goes: they change no result, and nothing
# here.
_WITHOUT_EFFECT = frozenset(
    "BROADCAST SHUFFLE_HASH SHUFFLE_MERGE NEST_LOOP MULTI_JOIN LOOKUP STATE_TTL".split()
)


# Options that say which kinds of rows a table gives; that is settled when the table is defined.
_OF_KINDS = ("connector", "format", "changelog-mode", "upsert")


def with_hints(table: Table, hints: Iterable[exp.Expression], *, read: bool = False) -> Table:
    """The table with the options of its hints: those of the first OPTIONS count. PlanError for a
    hint that Flink does not know. `read`: the table is one that a query reads."""
    options: dict[str, str] = {}
    for hint in hints:
        if hint.name == "OPTIONS":
            options = _options(hint) | options
            fixed = next(
                (
                    k
                    for k, v in options.items()
                    if read and k in _OF_KINDS and table.options.get(k) != v
                ),
                None,
            )
            if fixed is not None:
                hint_text = "write CREATE TABLE … LIKE with the option"
                message = f"option '{fixed}' of a table that is read is not supported in a hint"
                raise UnsupportedError(message, hint=hint_text, position=position_of(hint))
        elif hint.name not in _WITHOUT_EFFECT:
            raise PlanError(
                f"unknown hint '{hint.name}'", hint="OPTIONS is there", position=position_of(hint)
            )
    return replace(table, options={**table.options, **options}) if options else table


def _options(hint: exp.Expression) -> dict[str, str]:
    if not hint.expressions or not all(isinstance(e, exp.EQ) for e in hint.expressions):
        where = position_of(hint)
        raise PlanError(
            "OPTIONS takes 'key' = 'value'",
            hint="write /*+ OPTIONS('key' = 'value') */",
            position=where,
        )
    return {e.this.name: e.expression.name for e in hint.expressions}
