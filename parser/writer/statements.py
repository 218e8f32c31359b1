"""Statements as SQL: what is written from a tree alone parses to an equal tree, and is good Flink
SQL where the tree comes from such a text. All stands on one line; keywords and names of functions
are in upper case."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from parser import statements as s
from parser.alterations import Alter, Drop
from parser.writer.alterations import alter, drop
from parser.writer.definitions import (
    create_catalog,
    create_connection,
    create_database,
    create_function,
    create_materialized_table,
    create_model,
    create_table,
    create_view,
    partition,
    when,
    with_options,
    words,
)
from parser.writer.dispatch import expression, query
from parser.writer.names import name, names, path, quoted
from parser.writer.queries import extension, hints, relation

__all__ = ["write", "write_tree"]


def write(statement: s.Statement) -> str:
    """The statement without a closing semicolon."""
    return _WRITERS[type(statement)](statement)


def write_tree(node: exp.Expression) -> str:
    """A query or a scalar expression."""
    return query(node) if isinstance(node, exp.Query) else expression(node)


def _insert(insert: s.Insert) -> str:
    return words(
        "UPSERT INTO"
        if insert.upsert
        else "INSERT OVERWRITE"
        if insert.overwrite
        else "INSERT INTO",
        path(insert.target),
        f"/*+ {hints([*insert.hints])} */" if insert.hints else None,
        extension([*insert.extend]) if insert.extend else None,
        f"PARTITION {partition(insert.partition)}" if insert.partition else None,
        f"({', '.join(map(path, insert.columns))})" if insert.columns else None,
        query(insert.query),
        f"ON CONFLICT DO {insert.on_conflict}" if insert.on_conflict else None,
        _emit(insert.emit),
    )


def _emit(items: tuple[s.Emit, ...]) -> str | None:
    texts = (
        words(
            "WITHOUT DELAY" if e.delay is None else f"WITH DELAY {expression(e.delay)}",
            f"{e.when} WATERMARK" if e.when else None,
        )
        for e in items
    )
    return f"EMIT {', '.join(texts)}" if items else None


def _statement_set(statement_set: s.StatementSet, execute: str = "EXECUTE ") -> str:
    inserts = " ".join(f"{_insert(i)};" for i in statement_set.inserts)
    return f"{execute}STATEMENT SET BEGIN {inserts} END"


def _inner(statement: s.Statement) -> str:
    """A statement below EXPLAIN or COMPILE PLAN."""
    return (
        _statement_set(statement, "") if isinstance(statement, s.StatementSet) else write(statement)
    )


def _compile(statement: s.CompilePlan) -> str:
    return words(
        "COMPILE",
        when(statement.execute, "AND EXECUTE"),
        f"PLAN {quoted(statement.path)}",
        when(statement.if_not_exists, "IF NOT EXISTS"),
        f"FOR {_inner(statement.statement)}",
    )


def _assignments(items: tuple[s.Assignment, ...]) -> str:
    return ", ".join(f"{path(i.column)} = {expression(i.value)}" for i in items)


def _where(condition: exp.Expression | None) -> str | None:
    return f"WHERE {expression(condition)}" if condition is not None else None


def _merge(merge: s.Merge) -> str:
    update = _assignments(merge.assignments)
    values = merge.values
    columns = names(merge.columns) if merge.columns else None
    inserted = (
        words("INSERT", columns, f"VALUES {expression(values)}") if values is not None else None
    )
    return words(
        f"MERGE INTO {relation(merge.table)} USING {relation(merge.source)} ON"
        f" {expression(merge.condition)}",
        f"WHEN MATCHED THEN UPDATE SET {update}" if update else None,
        f"WHEN NOT MATCHED THEN {inserted}" if inserted else None,
    )


def _show(show: s.Show) -> str:
    what = show.what.replace("_", " ")
    scope = None
    if show.name is not None:
        scope = path(show.name) if show.what == "PARTITIONS" else f"FROM {path(show.name)}"
    pattern = None
    if show.like is not None:
        like = "ILIKE" if show.ignore_case else "LIKE"
        pattern = words(when(show.negated, "NOT"), like, quoted(show.like))
    values = f"PARTITION {partition(show.partition)}" if show.partition else None
    return words("SHOW", what, scope, values, pattern)


def _describe(describe: s.Describe) -> str:
    kind = None if describe.kind is s.Kind.TABLE else describe.kind.words
    target = quoted(describe.name[0]) if describe.kind is s.Kind.JOB else path(describe.name)
    return words("DESCRIBE", kind, when(describe.extended, "EXTENDED"), target)


def _set(setting: s.Set) -> str:
    return (
        "SET"
        if setting.key is None
        else f"SET {quoted(setting.key)} = {quoted(setting.value or '')}"
    )


def _analyze(analyze: s.Analyze) -> str:
    columns = "FOR ALL COLUMNS" if analyze.all_columns else None
    if analyze.columns:
        columns = f"FOR COLUMNS {', '.join(map(name, analyze.columns))}"
    values = f"PARTITION {partition(analyze.partition)}" if analyze.partition else None
    return words("ANALYZE TABLE", path(analyze.name), values, "COMPUTE STATISTICS", columns)


_WRITERS: dict[type[s.Statement], Callable[[Any], str]] = {
    s.CreateTable: create_table,
    s.CreateMaterializedTable: create_materialized_table,
    s.CreateView: create_view,
    s.CreateFunction: create_function,
    s.CreateCatalog: create_catalog,
    s.CreateDatabase: create_database,
    s.CreateModel: create_model,
    s.CreateConnection: create_connection,
    Drop: drop,
    Alter: alter,
    s.Insert: _insert,
    s.StatementSet: _statement_set,
    s.Query: lambda f: words(query(f.query), _emit(f.emit)),
    s.Update: lambda f: words(
        f"UPDATE {relation(f.table)} SET {_assignments(f.assignments)}", _where(f.where)
    ),
    s.Delete: lambda f: words(f"DELETE FROM {relation(f.table)}", _where(f.where)),
    s.Merge: _merge,
    s.Truncate: lambda f: f"TRUNCATE TABLE {path(f.name)}",
    s.Explain: lambda f: words("EXPLAIN", ", ".join(f.details), _inner(f.statement)),
    s.CompilePlan: _compile,
    s.ExecutePlan: lambda f: f"EXECUTE PLAN {quoted(f.path)}",
    s.Show: _show,
    s.ShowCreate: lambda f: f"SHOW CREATE {f.kind.words} {path(f.name)}",
    s.Describe: _describe,
    s.Set: _set,
    s.Reset: lambda f: "RESET" if f.key is None else f"RESET {quoted(f.key)}",
    s.Use: lambda f: words("USE", when(f.catalog, "CATALOG"), path(f.name)),
    s.UseModules: lambda f: f"USE MODULES {', '.join(map(name, f.names))}",
    s.LoadModule: lambda f: words("LOAD MODULE", name(f.name), with_options(f.options)),
    s.UnloadModule: lambda f: f"UNLOAD MODULE {name(f.name)}",
    s.AddJar: lambda f: f"ADD JAR {quoted(f.path)}",
    s.RemoveJar: lambda f: f"REMOVE JAR {quoted(f.path)}",
    s.Call: lambda f: f"CALL {expression(f.call)}",
    s.StopJob: lambda f: words(
        f"STOP JOB {quoted(f.job)}",
        when(f.savepoint, "WITH SAVEPOINT"),
        when(f.drain, "WITH DRAIN"),
    ),
    s.Analyze: _analyze,
}
