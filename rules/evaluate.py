"""Formulas over a block: for (row, node) pairs, all at once level by level, and for whole
columns."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rules.block import Block, Truths
from rules.formula import Formulas
from rules.logic import FALSE, FLAT_TABLE
from rules.ragged import Index, Ints, spread

# Leaves looked at in one go: bounds the memory.
_CHUNK = 1 << 19


def evaluate_pairs(formulas: Formulas, block: Block, rows: Ints, nodes: Ints) -> Truths:
    """The value of `nodes[i]` in `rows[i]`."""
    # The running sum of leaves: pairs are cut where it passes a multiple of the chunk.
    costs = formulas.size[nodes].cumsum()
    if len(nodes) == 0 or costs[-1] <= _CHUNK:
        return _evaluate(formulas, block, rows, nodes)
    cuts = np.flatnonzero(np.diff(costs // _CHUNK)) + 1
    parts = zip(np.split(rows, cuts), np.split(nodes, cuts), strict=True)
    return np.concatenate([_evaluate(formulas, block, r, n) for r, n in parts])


def _evaluate(formulas: Formulas, block: Block, rows: Ints, nodes: Ints) -> Truths:
    # Down: all pairs are expanded to the edges of their nodes, level by level, until only leaves
    # are left. Up: each level takes the minimum of its edges. No recursion, a few NumPy calls per
    # level.
    levels: list[tuple[Ints, Index, Truths, Index]] = []
    while True:
        start = formulas.start[nodes]
        counts = formulas.start[nodes + 1] - start
        edges = spread(start, counts)
        targets = formulas.target[edges]
        edge_rows = rows.repeat(counts)
        # Where the edges of each node begin, as reduceat wants it.
        offsets = counts.cumsum() - counts
        inner = (targets < 0).nonzero()[0]
        if not len(inner):
            break
        values = np.zeros(len(edges), np.int8)
        leaf = (targets >= 0).nonzero()[0]
        values[leaf] = block.values(targets[leaf], edge_rows[leaf])
        levels.append((formulas.function[edges], offsets, values, inner))
        # ~target is the node of an inner edge.
        rows, nodes = edge_rows[inner], ~targets[inner]
    result = _minimum(formulas.function[edges], block.values(targets, edge_rows), offsets)
    for functions, offsets, values, inner in reversed(levels):
        values[inner] = result
        result = _minimum(functions, values, offsets)
    return result


def _minimum(functions: Ints, values: Truths, offsets: Index) -> Truths:
    if not len(values):
        return values
    # Functions are stored times four: function and truth make one index.
    passed: Truths = FLAT_TABLE[functions + values]
    # AND of three values is their minimum in this encoding.
    return np.minimum.reduceat(passed, offsets)


class ColumnEvaluator:
    """Values of nodes in all rows of a block; nodes that several rules share are evaluated once."""

    def __init__(self, formulas: Formulas, block: Block) -> None:
        self._formulas, self._block = formulas, block
        self._known: dict[int, Truths] = {}
        self._plain: dict[int, Truths] = {}

    def node(self, root: int) -> Truths:
        work = [root]
        while work:
            node = work[-1]
            # Depth first with a stack; a node is combined when nothing below it is unknown.
            inner = [~t for t in self._targets(node).tolist() if t < 0 and ~t not in self._known]
            if inner:
                work += inner
            else:
                work.pop()
                if node not in self._known:
                    self._known[node] = self._combine(node)
        return self._known[root]

    def _span(self, node: int) -> slice:
        return slice(int(self._formulas.start[node]), int(self._formulas.start[node + 1]))

    def _targets(self, node: int) -> npt.NDArray[np.int32]:
        return self._formulas.target[self._span(node)]

    def _combine(self, node: int) -> Truths:
        span, leaves = self._span(node), self._block.leaves
        result = np.full(self._block.rows, 3, np.int8)
        for function, values in self._operands(
            self._formulas.function[span], self._formulas.target[span], leaves.column
        ):
            np.minimum(result, FLAT_TABLE[function + values], out=result)
            if result.max(initial=FALSE) == FALSE:  # a minimum cannot rise again
                break
        return result

    def _operands(self, functions: Ints, targets: Ints, column: Ints) -> list[tuple[int, Truths]]:
        """Leaves that are TRUE nowhere in the block differ by their variable alone."""
        inner = targets < 0
        operands = [
            (f, self._known[~t])
            for f, t in zip(functions[inner].tolist(), targets[inner].tolist(), strict=True)
        ]
        leaves, functions = targets[~inner], functions[~inner]
        variables, columns = self._block.leaves.variable_of[leaves], column[leaves]
        # Of the many leaves that are TRUE nowhere in the block, one per function and variable is
        # enough for the minimum.
        distinct: dict[tuple[int, int, int], None] = {}
        for function, variable, place in zip(
            functions.tolist(), variables.tolist(), columns.tolist(), strict=True
        ):
            distinct[function, variable, place] = None
        for function, variable, place in distinct:
            values = (
                self._plain_column(variable) if place == 0 else self._block.column(variable, place)
            )
            operands.append((function, values))
        return operands

    def _plain_column(self, variable: int) -> Truths:
        values = self._plain.get(variable)
        if values is None:
            values = self._plain[variable] = self._block.column(variable, 0)
        return values
