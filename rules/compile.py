"""Compiles conditions into predicate indexes, formulas and access predicates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from parser.errors import SqlError
from rules.access_choice import access_options
from rules.access_predicates import AccessSelector, EdgeCosts, RulePlan, plan_rule
from rules.block import Leaves
from rules.block_matcher import RuleTable
from rules.compiled_rules import CompiledRules
from rules.condition import Condition, Opaque, Variable
from rules.counters import Counters
from rules.formula import FALSE_LEAF, Index, NodeTable, constant_of, finish, lower
from rules.leaves import LeafTable, expected_share
from rules.logic import TRUE
from rules.options import Options
from rules.predicate_index import PredicateIndex, build_index
from rules.slow_patterns import SlowPatterns
from udf.java.regex import JavaRegex

# Called every few ms of a compilation: whoever runs it beside the stream gives way there.
YieldControl: TypeAlias = Callable[[], None]

# Of so few rules the databases are not worth a file: they are gone with the next change.
_WORTH_KEEPING = 32


def compile_rules(
    rules: Mapping[str, Condition],
    options: Options,
    counters: Counters,
    yield_control: YieldControl | None = None,
) -> CompiledRules:
    """Rules are numbered in the order of `rules`. SqlError, naming the rule, where a condition has
    a bad literal."""
    yield_control = yield_control or _go_on
    if len(rules) < _WORTH_KEEPING:
        options = replace(options, folder=None)
    leaves, nodes = LeafTable(), NodeTable()
    roots: list[int] = []
    always: list[int] = []
    for number, (name, condition) in enumerate(rules.items()):
        yield_control()
        try:
            edge = lower(condition, leaves.edge)
        except SqlError as error:
            error.hint = error.hint or f"the rule is '{name}'"
            raise
        roots.append(nodes.add(edge))
        if constant_of(edge) == TRUE:
            always.append(number)
    shares = [
        expected_share(leaf, uses) for leaf, uses in zip(leaves.leaves, leaves.uses, strict=True)
    ]
    plans = _plan(roots, leaves, nodes, shares if options.access else None, yield_control)
    numbers, variable_of, variables = _number(leaves)
    formulas = finish(nodes, numbers)
    unindexed = [i for i, plan in enumerate(plans) if plan.access is None and i not in set(always)]
    table = _table(plans, always, unindexed, leaves, nodes, numbers)
    known = Leaves(variable_of, len(variables), np.zeros(len(leaves.leaves), np.int32))
    slow_patterns = SlowPatterns(options)
    indexes = _indexes(variables, leaves, numbers, options, slow_patterns, counters, yield_control)
    counters.parts_compiled += 1
    sets = [() if p.access is None else (p.access, *p.others) for p in plans]
    access = access_options(sets, numbers, shares)
    return CompiledRules(indexes, formulas, table, known, access, options, slow_patterns, counters)


def _go_on() -> None:
    """Does nothing, for a compilation that nobody waits for."""


def _plan(
    roots: list[int],
    leaves: LeafTable,
    nodes: NodeTable,
    shares: list[float | None] | None,
    yield_control: YieldControl,
) -> list[RulePlan]:
    opaque = frozenset(
        i for i, leaf in enumerate(leaves.leaves) if isinstance(leaf.matching, Opaque)
    )
    sizes = EdgeCosts(nodes.nodes, opaque)
    sizes.extend()
    selector = None if shares is None else AccessSelector(nodes.nodes, shares)
    if selector is not None:
        selector.extend()
    plans = []
    for root in roots:
        yield_control()
        plans.append(plan_rule(root, nodes, selector, sizes))
    return plans


def _number(leaves: LeafTable) -> tuple[Index, Index, dict[Variable, list[int]]]:
    """New numbers that put the leaves of a variable side by side, leaf 0 and opaque ones where they
    are found by the last group; the group by new number; the leaves (by old number) of each
    variable."""
    variables: dict[Variable, list[int]] = {}
    others = []
    for number, leaf in enumerate(leaves.leaves):
        if leaf.variable is None:
            others.append(number)
        else:
            variables.setdefault(leaf.variable, []).append(number)
    # Leaf 0 stays leaf 0.
    order = [
        FALSE_LEAF,
        *(n for members in variables.values() for n in members),
        *(n for n in others if n != FALSE_LEAF),
    ]
    numbers = np.empty(len(order), np.int32)
    numbers[order] = np.arange(len(order))
    # The last group is that of leaf 0 and the opaque ones.
    variable_of = np.full(len(order), len(variables), np.int32)
    for variable, members in enumerate(variables.values()):
        variable_of[numbers[members]] = variable
    return numbers, variable_of, variables


def _indexes(
    variables: Mapping[Variable, list[int]],
    leaves: LeafTable,
    numbers: Index,
    options: Options,
    slow_patterns: SlowPatterns,
    counters: Counters,
    yield_control: YieldControl,
) -> list[PredicateIndex]:
    indexes = []
    for number, (variable, members) in enumerate(variables.items()):
        yield_control()
        numbered = [(int(numbers[m]), leaves.leaves[m].matching) for m in members]
        indexes.append(build_index(number, variable, numbered, options, slow_patterns, counters))
    return indexes


def _table(
    plans: list[RulePlan],
    always: list[int],
    unindexed: list[int],
    leaves: LeafTable,
    nodes: NodeTable,
    numbers: Index,
) -> RuleTable:
    # Four residuals at most for each rule, -1 where there are fewer.
    residuals = [
        [-1 if p.residuals[s] is None else p.residuals[s] for p in plans] for s in range(4)
    ]
    special = {
        i for i, leaf in enumerate(leaves.leaves) if isinstance(leaf.matching, Opaque | JavaRegex)
    }
    opaque: dict[int, dict[int, str]] = {}
    regexes: dict[int, tuple[int, ...]] = {}
    texts: dict[int, str] = {}
    leaves_under = _leaves_under(nodes, special) if special else {}
    for rule, plan in enumerate(plans):
        for old in sorted(leaves_under.get(plan.root, ())):
            matching, leaf = leaves.leaves[old].matching, int(numbers[old])
            if isinstance(matching, Opaque):
                opaque.setdefault(rule, {})[leaf] = matching.key
            elif isinstance(matching, JavaRegex):
                regexes[leaf] = (*regexes.get(leaf, ()), rule)
                texts[leaf] = matching.text
    return RuleTable(
        np.array([p.root for p in plans], np.int32),
        np.array(residuals, np.int32).reshape(4, len(plans)),
        np.array(always, np.intp),
        np.array(unindexed, np.intp),
        opaque,
        np.isin(np.arange(len(plans)), list(opaque)),
        regexes,
        texts,
    )


def _leaves_under(nodes: NodeTable, special: set[int]) -> dict[int, frozenset[int]]:
    """Returns the `special` leaves under each node; nodes without any are not listed."""
    under: dict[int, frozenset[int]] = {}
    # Operands have smaller numbers than the nodes that use them, so one pass suffices.
    for number, edges in enumerate(nodes.nodes):
        own = {t for _, t in edges if t in special}
        below = [under[~t] for _, t in edges if t < 0 and ~t in under]
        if own or below:
            under[number] = frozenset(own).union(*below)
    return under
