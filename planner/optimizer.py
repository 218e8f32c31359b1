"""The optimiser: PASSES in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Protocol, TypeAlias, TypeVar

from parser.errors import PlanError
from planner.logical import LogicalPlan
from planner.passes.constant_folding import constant_folding
from planner.passes.join_keys import join_keys
from planner.passes.merge_filters import merge_filters
from planner.passes.merge_projections import merge_projections
from planner.passes.prune_partitions import prune_partitions
from planner.passes.prune_projection import prune_projection
from planner.passes.push_down_filter import push_down_filter
from planner.passes.query_source import query_source
from planner.passes.remove_aggregates import remove_aggregates
from planner.passes.share_sums import share_sums
from planner.passes.simplify import simplify
from planner.passes.split_conjuncts import split_conjuncts
from planner.passes.unread_over import unread_over


class Pass(Protocol):
    """A function from plan to plan: equal rows, equal schema, no error where there was none. It
    returns the same object when there is nothing to do. Its name is that of its module."""

    __name__: str

    def __call__(self, plan: LogicalPlan, /) -> LogicalPlan: ...


# Filters are moved in pieces and put together again before expressions are worked on, so that those
# meet the final ones.
PASSES: tuple[Pass, ...] = (
    unread_over,
    split_conjuncts,
    push_down_filter,
    join_keys,
    merge_filters,
    remove_aggregates,
    merge_projections,
    constant_folding,
    simplify,
    prune_partitions,
    prune_projection,
    query_source,
    share_sums,
)

NONE: frozenset[str] = frozenset()
PREFIX = "optimizer."

# Called with the name of a pass and the plan behind it.
Observe: TypeAlias = Callable[[str, LogicalPlan], None]
P = TypeVar("P", bound=LogicalPlan)


def optimize(
    plan: P,
    *,
    disabled: frozenset[str] = NONE,
    observe: Observe | None = None,
) -> P:
    """The plan after all passes but those named in `disabled`; `observe` sees each pass's name and
    outcome. The root keeps its kind: it is a `Sink`, or what no pass touches."""
    optimized: LogicalPlan = plan
    for run in PASSES:
        if run.__name__ in disabled:
            continue
        after = run(optimized)
        check_schema(run.__name__, optimized, after)
        if observe is not None:
            observe(run.__name__, after)
        optimized = after
    assert isinstance(optimized, type(plan))
    return optimized


def disabled_passes(settings: Mapping[str, str]) -> frozenset[str]:
    """Passes that `SET 'optimizer.<pass>' = 'false'` switches off. PlanError for a pass or value
    that is unknown."""
    switches = {k: v for k, v in settings.items() if k.startswith(PREFIX)}
    return frozenset(name for k, v in switches.items() for name, on in (_switch(k, v),) if not on)


def _switch(key: str, value: str) -> tuple[str, bool]:
    """The pass that a setting names with hyphens, and True if the setting switches it on."""
    names = [p.__name__ for p in PASSES]
    name = key.removeprefix(PREFIX).replace("-", "_")
    if name not in names:
        close = get_close_matches(name, names, 1) or names
        hint = "there is " + ", ".join(f"'{PREFIX}{n.replace('_', '-')}'" for n in close)
        raise PlanError(f"unknown setting '{key}'", hint=hint)
    if value.lower() not in ("true", "false"):
        raise PlanError(f"invalid value '{value}' of '{key}'", hint="use 'true' or 'false'")
    return name, value.lower() == "true"


def check_schema(name: str, before: LogicalPlan, after: LogicalPlan) -> None:
    """AssertionError where a pass or step, which has that name, changed the columns of a plan."""
    if after is not before and before.schema != after.schema:
        raise AssertionError(
            f"{name} changed the schema\n  from {before.schema}\n  to   {after.schema}"
        )
