"""Statements and definitions of SQLAlchemy as Flink SQL."""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import md5
from typing import Any, Final

from sqlalchemy.sql.compiler import DDLCompiler, IdentifierPreparer, SQLCompiler

from parser.grammar.reserved import RESERVED
from parser.writer.names import options as with_options
from parser.writer.names import quoted
from planner.catalog import DEFAULT_DATABASE

# Where rows are without another word: they go with the table.
_OWN: Final = {"connector": "topic", "topic.owned": "true", "format": "json"}


class Preparer(IdentifierPreparer):
    """Names in backticks, where they need them."""

    reserved_words = {word.lower() for word in RESERVED}  # noqa: RUF012

    def __init__(self, dialect: Any) -> None:
        super().__init__(dialect, initial_quote="`", escape_quote="`")


class Statements(SQLCompiler):
    """Writes queries and INSERTs."""

    def default_from(self) -> str:
        """Returns a row to ask of, where a SELECT without FROM has more than its columns: Flink SQL
        knows no other clause then."""
        select = self.stack[-1]["selectable"]
        clauses = ("_where_criteria", "_group_by_clauses", "_having_criteria")
        return (
            "\nFROM (VALUES (0)) AS one_ (x)"
            if any(len(getattr(select, c)) for c in clauses)
            else ""
        )

    def limit_clause(self, select: Any, **options: Any) -> str:
        """LIMIT and OFFSET, each alone or both."""
        text = ""
        if select._limit_clause is not None:
            text += "\n LIMIT " + self.process(select._limit_clause, **options)
        if select._offset_clause is not None:
            text += "\n OFFSET " + self.process(select._offset_clause, **options)
        return text

    def visit_empty_set_expr(self, element_types: Any, **options: Any) -> str:
        """A query without rows, for IN without values."""
        types = self.dialect.type_compiler
        columns = ", ".join(
            f"CAST(NULL AS {'INT' if t._isnull else types.process(t)})" for t in element_types
        )
        return f"SELECT {columns} FROM (VALUES (1)) AS none_ (x) WHERE x <> 1"

    def visit_empty_set_op_expr(self, *arguments: Any, **options: Any) -> str:
        """Returns the text in the parentheses of IN without values."""
        text: str = super().visit_empty_set_op_expr(*arguments, **options)
        return text.replace("!=", "<>")

    def visit_ne_binary(self, binary: Any, operator: Any, **options: Any) -> str:
        """Returns a comparison by <>, the only sign for it."""
        text: str = self._generate_generic_binary(binary, " <> ", **options)
        return text

    def visit_regexp_match_op_binary(self, binary: Any, operator: Any, **options: Any) -> str:
        left = self.process(binary.left, **options)
        return f"REGEXP({left}, {self._pattern(binary.right, binary, options)})"

    def visit_not_regexp_match_op_binary(self, binary: Any, operator: Any, **options: Any) -> str:
        return "NOT " + self.visit_regexp_match_op_binary(binary, operator, **options)

    def visit_regexp_replace_op_binary(self, binary: Any, operator: Any, **options: Any) -> str:
        """Returns REGEXP_REPLACE. SQLAlchemy 1.4 keeps the replacement apart."""
        apart = binary.modifiers.get("replacement")
        pattern, new = binary.right.clauses if apart is None else (binary.right, apart)
        parts = (self.process(binary.left, **options), self._pattern(pattern, binary, options))
        return f"REGEXP_REPLACE({', '.join((*parts, self.process(new, **options)))})"

    def _pattern(self, pattern: Any, binary: Any, options: dict[str, Any]) -> str:
        """Returns a regular expression, with the flags in front."""
        text: str = self.process(pattern, **options)
        flags = binary.modifiers.get("flags")
        flags = getattr(flags, "value", flags)
        return text if flags is None else f"CONCAT({quoted(f'(?{flags})')}, {text})"

    def visit_aggregate_strings_func(self, function: Any, **options: Any) -> str:
        return f"LISTAGG{self.function_argspec(function)}"

    def visit_try_cast(self, cast: Any, **options: Any) -> str:
        return f"TRY_{self.visit_cast(cast, **options)}"

    def for_update_clause(self, select: Any, **options: Any) -> str:
        """Returns nothing: rows are not locked, as nobody changes them."""
        return ""

    def visit_now_func(self, function: Any, **options: Any) -> str:
        return "NOW()"

    def visit_true(self, expression: Any, **options: Any) -> str:
        return "TRUE"

    def visit_false(self, expression: Any, **options: Any) -> str:
        return "FALSE"


class Definitions(DDLCompiler):
    """Writes CREATE and DROP. A table says where its rows are by `sqlengine_with={…}`; without it
    they are in a topic of its name, which is made and dropped with it."""

    def get_column_specification(self, column: Any, **options: Any) -> str:
        """A column with its type; Flink's tables have no defaults."""
        name = self.preparer.format_column(column)
        text = f"{name} {self.dialect.type_compiler.process(column.type, type_expression=column)}"
        if not column.nullable:
            text += " NOT NULL"
        return f"{text} COMMENT {quoted(column.comment)}" if column.comment else text

    def visit_primary_key_constraint(self, constraint: Any, **options: Any) -> str:
        text: str = super().visit_primary_key_constraint(constraint, **options)
        return f"{text} NOT ENFORCED" if text else text

    def visit_foreign_key_constraint(self, constraint: Any, **options: Any) -> None:
        """Nothing: tables have no such keys."""

    visit_unique_constraint = visit_check_constraint = visit_foreign_key_constraint

    def post_create_table(self, table: Any) -> str:
        """WITH, and the comment."""
        comment = f"\nCOMMENT {quoted(table.comment)}" if table.comment else ""
        return f"{comment}\nWITH {with_options(self._place(table))}"

    def create_table_select_suffixes(self, element: Any, kind: str, **options: Any) -> str:
        """WITH, in CREATE TABLE … AS of SQLAlchemy 2.1."""
        return f"WITH {with_options(self._place(element.table))}" if kind != "view" else ""

    def _place(self, table: Any) -> Mapping[str, str]:
        return _place(table, self.dialect.default_schema_name)

    def visit_create_schema(self, create: Any, **options: Any) -> str:
        text: str = super().visit_create_schema(create, **options)
        return text.replace("SCHEMA", "DATABASE", 1)

    def visit_drop_schema(self, drop: Any, **options: Any) -> str:
        text: str = super().visit_drop_schema(drop, **options)
        return text.replace("SCHEMA", "DATABASE", 1)

    def visit_create_index(self, create: Any, **options: Any) -> str:
        """A statement that does nothing: tables have no indexes, and pandas asks for them."""
        return "SELECT 1"

    visit_drop_index = visit_create_index


def _place(table: Any, database: str | None) -> Mapping[str, str]:
    """Returns the options of a table: where its rows are. `database`: that of the connection."""
    given: Mapping[str, str] | None = table.dialect_options["sqlengine"]["with"]
    within = table.schema or database
    plain = within is None or within == DEFAULT_DATABASE
    name = table.name if plain else f"{within}.{table.name}"
    return given or {**_OWN, "topic": _topic(name)}


def _topic(table: str) -> str:
    """Returns the name of a topic of its own for a table. Those with _ in front are the
    system's."""
    plain = re.sub(r"[^A-Za-z0-9_.-]", "_", table)
    if plain == table and table.strip(".") and table[0] != "_":
        return table
    mark = md5(table.encode(), usedforsecurity=False).hexdigest()[:8]
    return f"{plain.lstrip('_') or 'table'}-{mark}"
