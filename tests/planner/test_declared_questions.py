"""Every operation answers what the planner asks of it; none inherits an answer that may be wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import pytest

from parser import parse
from parser.errors import UnsupportedError
from parser.types import Schema
from planner import bind
from planner.binder.subqueries.domains import Domain
from planner.catalog import Catalog, Table, View
from planner.logical import (
    GroupAggregate,
    LogicalPlan,
    Sink,
    WindowAggregate,
)
from planner.logical.node import (
    DECLARED,
    OneInput,
    always,
    changes_of_inputs,
    constant_if_insert_only,
    never,
    no_columns,
    same_columns,
)
from planner.rewrite import nodes
from sqlengine.executors import build  # every class that runs is known with it

TABLE = """
CREATE TABLE t (k STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'x');
"""


def operations(base: type[LogicalPlan] = LogicalPlan) -> Iterator[type[LogicalPlan]]:
    for kind in base.__subclasses__():
        yield kind
        yield from operations(kind)


def declares(kind: type[LogicalPlan], question: str) -> bool:
    """True if the class answers the question, or a class without rows of its own does for it."""
    for owner in kind.__mro__:
        if question in vars(owner):
            shared = issubclass(owner, LogicalPlan) and not owner.is_operation
            return owner is kind or (owner is not LogicalPlan and shared)
    return False


def test_every_operation_declares_all_answers() -> None:
    known = {k for k in operations() if k.is_operation}
    assert {Domain, Sink, WindowAggregate} | set(build._BUILDERS) <= known
    missing = [
        f"{kind.__name__}.{question}"
        for kind in known
        for question in kind.questions()
        if not declares(kind, question)
    ]
    assert not missing
    assert all(set(DECLARED) <= set(kind.questions()) for kind in known)


def test_an_operation_without_answers_cannot_be_defined() -> None:
    with pytest.raises(TypeError, match="Silent does not declare changes, column_sources, forw"):

        @dataclass(frozen=True)
        class Silent(OneInput):
            pass


def test_an_answer_of_another_operation_does_not_count() -> None:
    with pytest.raises(TypeError, match=r"Heir does not declare changes, .*, exchange"):

        @dataclass(frozen=True)
        class Heir(GroupAggregate):
            pass


@dataclass(frozen=True)
class Forwarding(OneInput):
    """A new operation without state, which tells that its rows stay in their windows."""

    changes = cached_property(changes_of_inputs)
    column_sources = same_columns
    forwards_window = always
    monotonicity = cached_property(constant_if_insert_only)

    @property
    def parameters(self) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True)
class Mixing(Forwarding):
    """A new operation whose rows are of no window."""

    changes = cached_property(changes_of_inputs)
    column_sources = no_columns
    forwards_window = never
    monotonicity = cached_property(constant_if_insert_only)


@dataclass(frozen=True)
class Dropping(Forwarding):
    """A new operation that leaves out a column of the window."""

    changes = cached_property(changes_of_inputs)
    column_sources = same_columns
    forwards_window = always
    monotonicity = cached_property(constant_if_insert_only)

    @property
    def schema(self) -> Schema:
        names = tuple(n for n in self.input.schema.names if n != "window_time")
        return self.input.schema.select(names)


WINDOWS = {
    "TUMBLE": "SELECT * FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE))",
    "HOP": "SELECT * FROM TABLE("
    "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '5' MINUTE))",
    "SESSION": "SELECT * FROM TABLE("
    "SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '1' MINUTE))",
}
GROUPED = """
SELECT k, window_start, window_end, SUM(v) FROM windowed GROUP BY k, window_start, window_end
"""


def planned(kind: type[OneInput] | None, windows: str, query: str = GROUPED) -> list[LogicalPlan]:
    """The operations of a query over a view of windows, with the new operation (None: none) above
    them."""
    catalog = Catalog()
    script = f"{TABLE} CREATE VIEW windowed AS {windows};"
    for statement in parse(script):
        bound = bind(statement, catalog, {})
        assert isinstance(bound, Table | View)
        if isinstance(bound, View) and kind is not None:
            bound = replace(bound, plan=kind(bound.plan))
        catalog = catalog.put(bound)
    (statement,) = parse(f"{query};")
    bound = bind(statement, catalog, {})
    assert isinstance(bound, tuple)
    return list(nodes(bound[0]))


@pytest.mark.parametrize("windows", WINDOWS.values(), ids=WINDOWS)
def test_a_windowed_aggregate_stays_one_above_a_new_operation(windows: str) -> None:
    kinds = {type(n) for n in planned(Forwarding, windows)}
    assert Forwarding in kinds
    assert WindowAggregate in kinds
    assert GroupAggregate not in kinds


def test_distinct_rows_of_windows_stay_such_above_a_new_operation() -> None:
    kinds = {
        type(n) for n in planned(Forwarding, WINDOWS["HOP"], "SELECT DISTINCT * FROM windowed")
    }
    assert WindowAggregate in kinds
    assert GroupAggregate not in kinds


def test_slices_are_made_only_below_operations_that_ignore_bounds() -> None:
    (aggregate,) = [n for n in planned(Forwarding, WINDOWS["HOP"]) if type(n) is WindowAggregate]
    assert aggregate.shared is None


def test_what_cannot_hand_on_a_bound_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="Dropping does not hand on the window_time"):
        planned(Dropping, WINDOWS["TUMBLE"])


def test_an_operation_that_mixes_windows_ends_them() -> None:
    kinds = {type(n) for n in planned(Mixing, WINDOWS["TUMBLE"])}
    assert GroupAggregate in kinds
    assert WindowAggregate not in kinds


def test_what_reads_a_bound_by_another_name_keeps_whole_windows() -> None:
    """Slices have other bounds than windows, so no expression may see them."""
    read = "SELECT *, window_start AS also FROM TABLE("
    windows = WINDOWS["HOP"].replace("SELECT * FROM TABLE(", read)
    for select, where in (
        ("MAX(also)", ""),
        ("SUM(v)", "WHERE also > TIMESTAMP '2024-01-01 00:00:00'"),
    ):
        query = f"""
            SELECT window_start, window_end, {select} FROM (SELECT * FROM windowed {where})
            GROUP BY window_start, window_end
        """
        plan = planned(None, windows, query)
        (aggregate,) = [n for n in plan if type(n) is WindowAggregate]
        assert aggregate.shared is None


def test_an_operation_that_says_nothing_of_updates_keeps_what_they_replace() -> None:
    """It may drop the +U of a row: without -U a table by key would keep the row of before."""
    query = "SELECT k, COUNT(*) AS n FROM windowed GROUP BY k"
    operations = planned(None, "SELECT * FROM t", query)
    aggregate = next(n for n in operations if isinstance(n, GroupAggregate))
    assert aggregate.after_only
    assert not Forwarding(aggregate).after_only
    (rows,) = aggregate.inputs
    assert Forwarding(rows).after_only, "rows that are never updated"
