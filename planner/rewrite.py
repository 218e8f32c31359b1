"""Traversal and rewriting of plans and expressions, for all steps and passes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from parser.types import BOOLEAN, Schema
from planner.logical import LogicalPlan, Sink
from planner.scalar import Call, ColumnRef, Scalar, is_deterministic


def transform(plan: LogicalPlan, rule: Callable[[LogicalPlan], LogicalPlan]) -> LogicalPlan:
    """Applies `rule` to every node, inputs first. A node that several nodes read is rewritten once
    and stays one object."""
    done: dict[int, LogicalPlan] = {}

    def visit(node: LogicalPlan) -> LogicalPlan:
        if id(node) not in done:
            done[id(node)] = rule(node.with_inputs([visit(i) for i in node.inputs]))
        return done[id(node)]

    return visit(plan)


def transform_sink(sink: Sink, rule: Callable[[LogicalPlan], LogicalPlan]) -> Sink:
    """Applies `rule` to every node of a whole statement, whose root stays a sink."""
    changed = transform(sink, rule)
    assert isinstance(changed, Sink)
    return changed


def nodes(plan: LogicalPlan) -> Iterator[LogicalPlan]:
    """Yields each node of the plan once, however many read it."""
    waiting, seen = [plan], {id(plan)}
    while waiting:
        node = waiting.pop()
        yield node
        new = {id(i): i for i in node.inputs if id(i) not in seen}
        seen |= new.keys()
        waiting += new.values()


def map_expressions(node: LogicalPlan, change: Callable[[Scalar], Scalar]) -> LogicalPlan:
    """Applies `change` to the node's expressions; the node itself where none changes. Those of a
    watermark belong to the table and stay as they are."""
    before = node.expressions
    after = [change(e) for e in before]
    same = all(a is b for a, b in zip(before, after, strict=True))
    return node if same else node.with_expressions(after)


def rewrite(expression: Scalar, rule: Callable[[Call], Scalar]) -> Scalar:
    """Applies `rule` to every call, arguments first. An object that appears twice is rewritten
    once."""
    done: dict[int, Scalar] = {}

    def visit(node: Call) -> Scalar:
        known = done.get(id(node))
        if known is None:
            args = tuple([visit(a) if type(a) is Call else a for a in node.args])
            known = done[id(node)] = rule(with_args(node, args))
        return known

    return visit(expression) if isinstance(expression, Call) else expression


def with_args(call: Call, args: tuple[Scalar, ...]) -> Call:
    """The call with other arguments; the call itself where they are the same objects."""
    for old, new in zip(call.args, args, strict=True):
        if old is not new:
            return replace(call, args=args)
    return call


def substitute(expression: Scalar, values: Mapping[str, Scalar]) -> Scalar:
    """The expression with the columns named in `values` replaced by those values."""
    return replace_where(
        expression, lambda e: values.get(e.name) if isinstance(e, ColumnRef) else None
    )


def conjuncts(predicate: Scalar) -> tuple[Scalar, ...]:
    """The operands of an AND; any other expression alone."""
    if isinstance(predicate, Call) and predicate.function == "AND":
        return predicate.args
    return (predicate,)


def conjunction(operands: Iterable[Scalar]) -> Scalar:
    """Returns one n-ary AND of the operands, nested ones flattened; a single operand itself."""
    flat = tuple(part for o in operands for part in conjuncts(o))
    if len(flat) == 1:
        return flat[0]
    nullable = any(o.type.nullable for o in flat)
    return Call("AND", flat, BOOLEAN.with_nullable(nullable), all(map(is_deterministic, flat)))


def references(schema: Schema, names: Iterable[str]) -> tuple[tuple[str, Scalar], ...]:
    """Projection items that forward the columns `names`."""
    return tuple((n, ColumnRef(n, schema.type(n))) for n in names)


def is_column(expression: Scalar) -> bool:
    return isinstance(expression, ColumnRef)


def replace_where(expression: Scalar, find: Callable[[Scalar], Scalar | None]) -> Scalar:
    """The expression with its uppermost parts for which `find` returns a value replaced by that. An
    object that appears twice is looked at once."""
    done: dict[int, Scalar] = {}

    def visit(node: Scalar) -> Scalar:
        known = done.get(id(node))
        if known is None:
            known = find(node)
            if known is None and isinstance(node, Call):
                known = with_args(node, tuple(map(visit, node.args)))
            known = done[id(node)] = node if known is None else known
        return known

    return visit(expression)
