"""The base of all nodes of the logical plan, with the questions that the planner asks of a node.

Passes, merging and executors ask these questions and know no class but those that they treat
specially, so a new operation is a new class and nothing else in the planner. A question whose
default could be wrong has none: an operation that does not answer it (`DECLARED`) cannot be
defined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Final, Self, TypeAlias

from parser.types import Schema
from planner.logical.change_kinds import ModifyKindSet
from planner.logical.monotonicity import ModifiedMonotonicity, Monotonicity, Readers
from planner.logical.window_properties import WindowProperties
from planner.logical.window_specs import Window
from planner.scalar import Call, Scalar, columns_of, digest_of, walk
from planner.tables import Table

Names: TypeAlias = frozenset[str]

# The questions that each operation answers itself. An answer inherited from another operation does
# not count, since it may be wrong for this one.
DECLARED: Final = ("changes", "column_sources", "forwards_window", "monotonicity")


@dataclass(frozen=True)
class LogicalPlan:
    """A node of the plan. Its inputs are its first fields.

    `stateful`: keeps something from batch to batch, so that a later job has a node of its own.
    `forwards_row_time`: each row goes on with the time of its input. `selects_rows`: a condition
    decides which of the input's rows go on; True where that is not known. `reads_all_columns`:
    takes all columns that its input has by its schema, whoever reads it.

    A class that only shares code (`abstract=True`) is no operation, and need not answer all
    questions."""

    stateful: ClassVar[bool] = False
    forwards_row_time: ClassVar[bool] = False
    selects_rows: ClassVar[bool] = True
    reads_all_columns: ClassVar[bool] = False

    def __init_subclass__(cls, *, abstract: bool = False, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        missing = [] if abstract else [q for q in cls.questions() if not _answers(cls, q)]
        if missing:
            raise TypeError(f"{cls.__name__} does not declare {', '.join(missing)}")
        cls.is_operation = not abstract

    # Set for each class as it is defined.
    is_operation: ClassVar[bool] = False

    @classmethod
    def questions(cls) -> tuple[str, ...]:
        """The names of the properties and methods that the class must declare."""
        return DECLARED

    @property
    def inputs(self) -> tuple[LogicalPlan, ...]:
        return ()

    def with_inputs(self, inputs: Sequence[LogicalPlan]) -> Self:
        """The node over other inputs; itself where they are the same objects."""
        if all(a is b for a, b in zip(self.inputs, inputs, strict=True)):
            return self
        return self._over(inputs)

    def _over(self, inputs: Sequence[LogicalPlan]) -> Self:
        raise NotImplementedError

    @property
    def schema(self) -> Schema:
        raise NotImplementedError

    @property
    def label(self) -> str:
        """The text that EXPLAIN prints behind the name of the operation."""
        return ""

    @property
    def parameters(self) -> tuple[str, ...]:
        """Everything that distinguishes this node from another of its class over the same
        inputs."""
        raise NotImplementedError

    @property
    def identity(self) -> tuple[str, ...]:
        """The class and the parameters: with the inputs, what makes two nodes one."""
        return (type(self).__name__, *self.parameters)

    @property
    def meaning(self) -> tuple[str, ...]:
        """Everything that distinguishes its state from that of another node of its class."""
        return self.parameters

    @cached_property
    def digest(self) -> str:
        return digest_of(*self.identity, *(i.digest for i in self.inputs))

    @cached_property
    def size(self) -> int:
        """The number of operations, with those that several read counted for each of them."""
        return 1 + sum(i.size for i in self.inputs)

    @property
    def expressions(self) -> tuple[Scalar, ...]:
        """The expressions that passes may rewrite, in the order in which `with_expressions` takes
        them."""
        return ()

    def with_expressions(self, expressions: Sequence[Scalar]) -> Self:
        """Returns the node with these instead of its `expressions`."""
        return self

    @property
    def functions(self) -> frozenset[str]:
        """Names of all functions that the node itself calls."""
        return frozenset(
            n.function for e in self.expressions for n in walk(e) if isinstance(n, Call)
        )

    def pruned(self, wanted: Names) -> Self:
        """The node without what nobody wants of the columns that it makes itself, where it can
        leave them out."""
        return self

    def content(self, outputs: Names) -> tuple[str, ...]:
        """Returns the identity as far as the columns `outputs` depend on it: two nodes with equal
        contents over equal inputs compute the same of them."""
        return self.pruned(outputs).identity

    def reads(self, outputs: Names, port: int) -> Names:
        """Columns of input `port` that the node reads to give `outputs`."""
        return frozenset(self.inputs[port].schema.names)

    def needs(self, outputs: Names, port: int) -> Names:
        """Returns the input columns needed to compute `outputs`, plus those that a late-row side
        output needs."""
        return self.reads(outputs, port)

    def exchange(self, port: int) -> tuple[str, ...] | None:
        """Returns the columns of input `port` by whose hash rows must come together (none: all
        rows).

        None where rows may stay where they are. An operation with state declares it."""
        return None

    @cached_property
    def changes(self) -> ModifyKindSet:
        """The kinds of changes that the node may emit besides +I.

        Declared by each operation; `changes_of_inputs` is the answer of one that passes changes
        on."""
        raise NotImplementedError

    def column_sources(self, port: int) -> Mapping[str, str]:
        """Maps output columns to the columns of input `port` whose values they hold unchanged.

        It holds for every row that is made of one of that input (NULL where an outer join lacks
        such a row). Declared by each operation; `same_columns` and `no_columns` are frequent
        answers."""
        raise NotImplementedError

    def forwards_window(self, port: int) -> bool:
        """True if a row is still in the window that rows of input `port` are in, so that an
        aggregate above may group by it.

        Declared by each operation; `always` and `never` are frequent answers."""
        raise NotImplementedError

    @cached_property
    def monotonicity(self) -> ModifiedMonotonicity | None:
        """The monotonicity of each column under updates; None where rows may be deleted, or nothing
        is known.

        Declared by each operation; `constant_if_insert_only` is the answer where Flink has no
        rule."""
        raise NotImplementedError

    @property
    def outlasts_changes(self) -> bool:
        """True if what it keeps means the same whatever rows come from below, so that a new version
        of its job goes on with it."""
        return False

    @property
    def nonnegative(self) -> Names:
        """The columns that are known to have no value below zero."""
        return frozenset()

    @property
    def made_window(self) -> Window | None:
        """The window that the operation itself puts rows into; None if it does not."""
        return None

    @property
    def window_names(self) -> tuple[str, str, str] | None:
        """The columns of the window's start, end and time that the operation itself gives its rows;
        None if it only forwards such columns."""
        return None

    @cached_property
    def window_properties(self) -> WindowProperties | None:
        """The window that the rows are in, with the columns that hold its bounds; None where they
        are in none, or in no common one."""
        forwarded = [
            below.renamed(self.column_sources(port))
            for port, source in enumerate(self.inputs)
            if (below := source.window_properties) is not None and self.forwards_window(port)
        ]
        if not forwarded:
            return None
        bounds = {n: bound for below in reversed(forwarded) for n, bound in below.bounds.items()}
        return WindowProperties(forwarded[0].window, bounds)

    def ignores(self, columns: Names) -> bool:
        """True if the rows would be the same, but for these columns of them, with other values in
        these columns of the inputs. False where that is not known."""
        return False

    def handing_on(self, port: int, column: str, name: str) -> tuple[Self, str] | None:
        """The operation with a column that holds `column` of input `port`, and that column's name:
        one that is there, or else `name`. None if it cannot hand it on."""
        sources = self.column_sources(port).items()
        return next(((self, own) for own, source in sources if source == column), None)

    def for_each(self, columns: Schema) -> LogicalPlan | None:
        """The operation, over an input that has these columns besides those that it knows, done for
        each of their values apart: with these columns in its result. None if it cannot be."""
        return None

    def with_member(self, numbers: Sequence[Schema]) -> LogicalPlan | None:
        """The operation for many jobs at once: each of its inputs has a column more, given in
        `numbers`, whose values are jobs. It treats the rows of each as if there were no others, and
        its result has the column of the first input. None if it cannot do that."""
        return None

    def is_common(self, port: int) -> bool:
        """True if what comes by an input is the same for all jobs that run as one, and has no
        number (`with_member`)."""
        return False

    @cached_property
    def after_only(self) -> bool:
        """True if the -U of its updates can be left out for a reader that knows rows by an upsert
        key.

        False is always right, and so the answer of an operation that passes updates on and says
        nothing: it might drop the +U of a row whose -U was left out. `after_only_of_inputs` is that
        of one that passes every row on."""
        return ModifyKindSet.UPDATES not in self.changes

    @cached_property
    def upsert_keys(self) -> tuple[Names, ...]:
        """The sets of columns that each identify a row of the result so far; () where none is
        known."""
        return ()


@dataclass(frozen=True)
class LateTarget:
    """The table that late rows are written to.

    `items`: by input port of the operation, the values of the table's columns."""

    table: Table
    items: tuple[tuple[tuple[str, Scalar], ...], ...]

    @property
    def identity(self) -> tuple[str, ...]:
        items = (
            f"{port} {n} {e.digest}" for port, values in enumerate(self.items) for n, e in values
        )
        return ("late rows to", ".".join(self.table.name), *items)


@dataclass(frozen=True)
class OneInput(LogicalPlan, abstract=True):
    """An operation over one input, whose schema it keeps unless it overrides it."""

    input: LogicalPlan

    @property
    def inputs(self) -> tuple[LogicalPlan, ...]:
        return (self.input,)

    def _over(self, inputs: Sequence[LogicalPlan]) -> Self:
        (only,) = inputs
        return replace(self, input=only)

    @property
    def schema(self) -> Schema:
        return self.input.schema


@dataclass(frozen=True)
class TwoInputs(LogicalPlan, abstract=True):
    """An operation over a left and a right input."""

    left: LogicalPlan
    right: LogicalPlan

    @property
    def inputs(self) -> tuple[LogicalPlan, ...]:
        return (self.left, self.right)

    def _over(self, inputs: Sequence[LogicalPlan]) -> Self:
        left, right = inputs
        return replace(self, left=left, right=right)


@dataclass(frozen=True, kw_only=True)
class Stateful(LogicalPlan, abstract=True):
    """An operation that keeps state.

    `row_by_row`: its rows come one at a time, so that no change is folded into another (mini-batch
    is off). `ttl_ms`: the time to live of a key that no row touches, 0 for ever. `tells_late`: late
    rows become dead letters; `late`: they are written to a table."""

    stateful: ClassVar[bool] = True

    @classmethod
    def questions(cls) -> tuple[str, ...]:
        """`exchange` too: rows of one key must meet where its state is."""
        return (*super().questions(), "exchange")

    # Whether what comes out may depend on where a batch ends, so that `row_by_row` has a meaning.
    folds: ClassVar[bool] = True

    @cached_property
    def after_only(self) -> bool:
        """True: it makes its changes itself, and could make them without -U."""
        return True

    @property
    def depends_on_batches(self) -> bool:
        """True if what comes out depends on where a batch ends, at this place of a plan."""
        return self.folds

    # Whether rows may be late: too late for what the operation waits for.
    judges_lateness: ClassVar[bool] = False

    row_by_row: bool = False
    ttl_ms: int = 0
    tells_late: bool = False
    late: LateTarget | None = None

    @property
    def drops_late(self) -> bool:
        """True if it drops rows that come too late."""
        return self.judges_lateness

    def late_schema(self, port: int) -> Schema:
        """Returns the columns that a late row of input `port` has."""
        return self.inputs[port].schema

    def needs(self, outputs: Names, port: int) -> Names:
        read = self.reads(outputs, port)
        if self.late is None:
            return read
        of_late_rows = frozenset[str]().union(*(columns_of(e) for _, e in self.late.items[port]))
        return read | (of_late_rows & set(self.inputs[port].schema.names))

    @property
    def identity(self) -> tuple[str, ...]:
        row_by_row = ("row by row",) if self.row_by_row else ()
        ttl = (f"ttl {self.ttl_ms}",) if self.ttl_ms else ()
        late: tuple[str, ...] = ("late rows",) if self.tells_late else ()
        if self.late is not None:
            late = self.late.identity
        return (*super().identity, *row_by_row, *ttl, *late)


def _answers(cls: type[LogicalPlan], question: str) -> bool:
    """True if the class answers the question itself, or by a class that only shares code."""
    owner = next((c for c in cls.__mro__ if question in vars(c)), LogicalPlan)
    return owner is cls or (owner is not LogicalPlan and not vars(owner).get("is_operation", True))


def changes_of_inputs(node: LogicalPlan) -> ModifyKindSet:
    """The changes of an operation that passes on what its inputs bring."""
    kinds = ModifyKindSet.NONE
    for source in node.inputs:
        kinds |= source.changes
    return kinds


def after_only_of_inputs(node: LogicalPlan) -> bool:
    """True if no input needs its -U; for an operation that passes every row of an update on."""
    return all(i.after_only for i in node.inputs if ModifyKindSet.UPDATES in i.changes)


def constant_if_insert_only(node: LogicalPlan) -> ModifiedMonotonicity | None:
    """The monotonicity of an operation for which Flink's planner has no rule: rows that are never
    updated stay as they are."""
    if node.changes:
        return None
    return ModifiedMonotonicity.of_all(node.schema.names, Monotonicity.CONSTANT, Readers.RANKS)


def same_columns(node: LogicalPlan, port: int) -> Mapping[str, str]:
    """The sources of an operation whose columns hold those of its inputs that have their names."""
    below = node.inputs[port].schema
    return {n: n for n in node.schema.names if n in below}


def no_columns(node: LogicalPlan, port: int) -> Mapping[str, str]:
    """The sources of an operation that computes all its columns."""
    return {}


def always(node: LogicalPlan, port: int) -> bool:
    """Forwards the window of its rows."""
    return True


def never(node: LogicalPlan, port: int) -> bool:
    """Does not forward the window of its rows."""
    return False


def keys_within(keys: tuple[Names, ...], by: Names) -> tuple[Names, ...]:
    """Returns the keys that contain all exchange columns `by`.

    Rows of any other key may come from several subtasks, and are in no order among each other."""
    return tuple(key for key in keys if key >= by)


def renamed_keys(keys: tuple[Names, ...], names: Mapping[str, str]) -> tuple[Names, ...]:
    """Returns the keys of an input by the reader's names; a key that lacks a column is dropped."""
    return tuple(frozenset(names[n] for n in key) for key in keys if all(n in names for n in key))
