"""The rules of ../shared/corpora/sigma as conditions: a small reader of its WHERE texts, apart from
the project's own."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import sqlglot
from sqlglot import exp, tokens
from sqlglot.dialects.dialect import Dialect

from rules.block_matcher import OpaqueOf
from rules.columns import Columns, Mask
from rules.condition import And, Condition, Constant, Not, Opaque, Or, Predicate, Test, Variable

FOLDER = Path(__file__).parents[2].parent / "shared" / "corpora" / "sigma"
TABLES = (
    "process_creation", "file_event", "network_connection", "pipe_created", "dns_query", "create_remote_thread", "system"
)  # fmt: skip


class Reader(Dialect):
    """Backticks for names, quotes doubled in texts, no other escape."""

    class Tokenizer(tokens.Tokenizer):
        IDENTIFIERS: ClassVar = ["`"]
        QUOTES: ClassVar = ["'"]
        STRING_ESCAPES: ClassVar = ["'"]


def read_rules(table: str) -> dict[str, Condition]:
    rules = {}
    for line in (FOLDER / f"{table}.rules.jsonl").read_text("utf-8").splitlines():
        rule = json.loads(line)
        rules[rule["id"]] = to_condition(sqlglot.parse_one(rule["where"], dialect=Reader))
    return rules


def read_events(table: str) -> list[dict[str, object]]:
    with gzip.open(FOLDER / f"{table}.jsonl.gz") as lines:
        return [json.loads(line) for line in lines]


def read_expected(table: str) -> set[tuple[str, int]]:
    lines = (FOLDER / f"{table}.expected.tsv").read_text().splitlines()
    return {(rule, int(event)) for rule, event in (line.split("\t") for line in lines)}


def to_columns(events: list[dict[str, object]], fields: set[str]) -> Columns:
    """BIGINT where all values are integers, else STRING."""
    arrays = {}
    for name in fields:
        values = [e.get(name) for e in events]
        present = [v for v in values if v is not None]
        if present and all(isinstance(v, int) for v in present):
            arrays[name] = pa.array(values, pa.int64())
        else:
            arrays[name] = pa.array([None if v is None else str(v) for v in values], pa.string())
    return Columns(arrays)


def fields_of(rules: dict[str, Condition]) -> set[str]:
    fields: set[str] = set()
    work: list[Condition] = list(rules.values())
    while work:
        match work.pop():
            case Predicate(variable):
                fields.add(variable.field)
            case And(children) | Or(children):
                work.extend(children)
            case Not(child) | Test(child):
                work.append(child)
    return fields


def opaque_of(events: list[dict[str, object]]) -> OpaqueOf:
    """`LOWER(a) = LOWER(b)`, which compares two columns."""

    def evaluate(key: str, rows: npt.NDArray[np.int64]) -> tuple[Mask, Mask]:
        pairs = [[events[row].get(name) for name in key.split("=")] for row in rows.tolist()]
        null = np.array([None in pair for pair in pairs], np.bool_)
        return (
            np.array([str(a).lower() == str(b).lower() for a, b in pairs], np.bool_) & ~null,
            null,
        )

    return evaluate


def to_condition(root: exp.Expr) -> Condition:
    done: list[Condition] = []
    work: list[tuple[exp.Expr, bool]] = [(root, False)]
    while work:
        node, ready = work.pop()
        if isinstance(node, exp.Paren):
            work.append((node.this, False))
        elif isinstance(node, exp.And | exp.Or | exp.Not) or _is_test(node):
            operands = _operands(node)
            if not ready:
                work.append((node, True))
                work.extend((o, False) for o in reversed(operands))
                continue
            children = tuple(done[len(done) - len(operands) :])
            del done[len(done) - len(operands) :]
            done.append(_join(node, children))
        else:
            done.append(_leaf(node))
    return done[0]


def _is_test(node: exp.Expr) -> bool:
    return isinstance(node, exp.Is) and isinstance(node.expression, exp.Boolean)


def _operands(node: exp.Expr) -> list[exp.Expr]:
    """AND and OR chains lean to the left, a thousand deep."""
    if not isinstance(node, exp.And | exp.Or):
        return [node.this]
    operands, left = [], node
    while type(left) is type(node):
        operands.append(left.expression)
        left = left.this
    return [left, *reversed(operands)]


def _join(node: exp.Expr, children: tuple[Condition, ...]) -> Condition:
    match node:
        case exp.And():
            return And(children)
        case exp.Or():
            return Or(children)
        case exp.Not():
            return Not(children[0])
    return Test(children[0], "TRUE" if node.expression.this else "FALSE")


def _leaf(node: exp.Expr) -> Condition:
    match node:
        case exp.Boolean():
            return Constant(bool(node.this))
        case exp.Is():
            return Predicate(_variable(node.this), "IS NULL")
        case exp.Escape():
            return Predicate(
                _variable(node.this.this), "LIKE", (node.this.expression.this, node.expression.this)
            )
        case exp.Like():
            return Predicate(_variable(node.this), "LIKE", (node.expression.this, None))
        case exp.EQ() if isinstance(node.expression, exp.Lower):
            return Opaque(f"{node.this.this.name}={node.expression.this.name}")
        case exp.EQ():
            return Predicate(_variable(node.this), "=", _value(node.expression))
        case exp.In():
            return Predicate(
                _variable(node.this), "IN", (tuple(map(_value, node.expressions)), False)
            )
        case exp.RegexpLike():
            return Predicate(_variable(node.this), "REGEXP", node.expression.this)
        case exp.Anonymous():
            subject, literal = node.expressions
            return Predicate(_variable(subject), node.name.upper(), literal.this)
    raise NotImplementedError(f"{type(node).__name__}: {node.sql()[:80]}")


def _value(node: exp.Expr) -> str | int:
    return node.this if node.is_string else int(node.this)


def _variable(node: exp.Expr) -> Variable:
    if isinstance(node, exp.Lower):
        return Variable(node.this.name, ("LOWER",))
    return Variable(node.name)
