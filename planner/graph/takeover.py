"""Decides which state of a job's old version its new version takes over.

It is one decision for a dry run, for a change of a running job, for its repetition after a crash,
and for a start from a savepoint. State is kept where nothing has changed from the sources up to the
operation that keeps it. `job.state = keep` keeps it also where only what is below has changed;
`reset` keeps none. What a rule knows of the alerts that it has given stays in any case but that
(`outlasts_changes`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from parser.errors import OptionError
from planner.graph.merge import Graph
from planner.logical import LogicalPlan, Names
from planner.scalar import digest_of
from planner.wording import named

JOB_STATE = "job.state"


class Policy(StrEnum):
    """Values of `job.state`."""

    AUTO = "auto"
    KEEP = "keep"
    RESET = "reset"


class Outcome(StrEnum):
    """The outcome for an operation's state. DROPPED: the new version has no such operation."""

    KEPT = "kept"
    RESET = "reset"
    NEW = "new"
    DROPPED = "dropped"


@dataclass(frozen=True)
class Operation:
    """A stateful operation, as far as the decision needs it; it can be serialised.

    `id` distinguishes it from the others of its job; `identity` is equal where it and everything
    below it is, and `content` where they are as far as the job reads them ('' where that is not
    known). `meaning` is equal where it computes the same of other input. `below`: the
    operations below it, sources first, digest to name. `lasting`: its state means the same whatever
    is below."""

    id: str
    identity: str
    name: str
    kind: str
    meaning: str
    below: Mapping[str, str] = field(default_factory=dict)
    content: str = ""
    lasting: bool = False


@dataclass(frozen=True)
class Decision:
    """The outcome for `operation`, and the reason. `source` is the old operation whose state it
    takes over, or whose state is given up for it."""

    operation: Operation
    outcome: Outcome
    reason: str
    source: Operation | None = None


# Why the new operation cannot read the state of the old one; None where it can.
Obstacle = Callable[[Operation, Operation], str | None]


def policy_of(settings: Mapping[str, str]) -> Policy:
    """Returns the value of `job.state`. OptionError for an unknown one."""
    value = settings.get(JOB_STATE, Policy.AUTO)
    try:
        return Policy(value.lower())
    except ValueError:
        known = ", ".join(p.value for p in Policy)
        raise OptionError(
            f"'{JOB_STATE}' cannot be '{value}'", hint=f"it is one of {known}"
        ) from None


def operation_of(plan: LogicalPlan, node: str, identity: str, content: str = "") -> Operation:
    """Returns the operation of a plan. `node` is its id in the graph."""
    below: dict[str, str] = {}
    for source in plan.inputs:
        _note(source, below)
    meaning = digest_of(type(plan).__name__, *plan.meaning, *_windows(plan))
    return Operation(
        node,
        identity,
        named(plan),
        type(plan).__name__,
        meaning,
        below,
        content,
        plan.outlasts_changes,
    )


def contents(graph: Graph, job: str) -> dict[str, str]:
    """Returns, for each node of a job, a digest of it and everything below it, without the columns
    that the job does not read: a table may have more of them, and the job does not notice."""
    nodes = [graph.nodes[name] for name in graph.jobs.get(job, ())]
    read: dict[str, Names] = {}
    for node in reversed(nodes):  # readers before what they read
        outputs = read.setdefault(node.id, frozenset(node.plan.schema.names))
        for port, source in enumerate(node.inputs):
            every = frozenset(graph.nodes[source].plan.schema.names)
            columns = every if node.plan.reads_all_columns else node.plan.needs(outputs, port)
            read[source] = read.get(source, frozenset()) | columns
    found: dict[str, str] = {}
    for node in nodes:
        below = (found[source] for source in node.inputs)
        found[node.id] = digest_of(*node.plan.content(read[node.id]), *below)
    return found


def _windows(plan: LogicalPlan) -> list[str]:
    """Returns the parameters of the windows that rows are put into below the operation: state knows
    windows by their ends alone."""
    found: list[str] = []
    for source in plan.inputs:
        if source.made_window is not None and not source.stateful:
            found += source.parameters
        if not source.stateful:
            found += _windows(source)
    return found


def decide(
    old: Sequence[Operation],
    new: Sequence[Operation],
    policy: Policy = Policy.AUTO,
    obstacle: Obstacle | None = None,
) -> list[Decision]:
    """Returns a decision for each new operation, in their order, then one for each old one that has
    no successor."""
    # An old operation gives its state to one successor only.
    left = {o.id: o for o in old}
    found: dict[str, Decision] = {}
    # Best match first over all operations, then the next rule for those that are left.
    for rule in (_same, _same_content, _kept, _reset):
        for operation in new:
            if operation.id not in found:
                decision = rule(operation, left.values(), policy, obstacle)
                if decision is not None:
                    found[operation.id] = decision
                    if decision.source is not None:
                        left.pop(decision.source.id, None)
    # What is still without a decision is new.
    fresh = [
        Decision(n, Outcome.NEW, "the old version has no such operation" if old else "it is new")
        for n in new
    ]
    dropped = [
        Decision(o, Outcome.DROPPED, "the new version has no such operation", o)
        for o in left.values()
    ]
    return [found.get(d.operation.id, d) for d in fresh] + dropped


def _same(
    new: Operation, old: Iterable[Operation], policy: Policy, obstacle: Obstacle | None
) -> Decision | None:
    source = next((o for o in old if o.identity == new.identity), None)
    return _taken_over(new, source, policy, obstacle, "nothing has changed below it")


def _same_content(
    new: Operation, old: Iterable[Operation], policy: Policy, obstacle: Obstacle | None
) -> Decision | None:
    source = next((o for o in old if o.content and o.content == new.content), None)
    return _taken_over(new, source, policy, obstacle, "nothing that it reads has changed")


def _taken_over(
    new: Operation,
    source: Operation | None,
    policy: Policy,
    obstacle: Obstacle | None,
    reason: str,
) -> Decision | None:
    """Decides for an operation that computes the same of the same as `source` did."""
    if source is None:
        return None
    if policy is Policy.RESET:
        return Decision(new, Outcome.RESET, f"'{JOB_STATE}' is '{policy}'", source)
    why_not = obstacle(source, new) if obstacle is not None else None
    if why_not is not None:
        return Decision(new, Outcome.RESET, why_not, source)
    return Decision(new, Outcome.KEPT, reason, source)


# Why state outlasts changes, by the class of the operation.
_LASTING = {"Over": "alerts are counted on"}


def _kept(
    new: Operation, old: Iterable[Operation], policy: Policy, obstacle: Obstacle | None
) -> Decision | None:
    lasting = new.lasting and policy is Policy.AUTO
    if policy is not Policy.KEEP and not lasting:
        return None
    why = (
        _LASTING.get(new.kind, "its state means the same")
        if lasting
        else f"'{JOB_STATE}' is 'keep'"
    )
    # The first of equal meaning that can be read.
    for source in [o for o in old if o.meaning == new.meaning]:
        if obstacle is None or obstacle(source, new) is None:
            return Decision(new, Outcome.KEPT, f"{why}, and {_change(source, new)}", source)
    return None


def _reset(
    new: Operation, old: Iterable[Operation], policy: Policy, obstacle: Obstacle | None
) -> Decision | None:
    # Not equal, but of the same kind: named as what was there before.
    alike = [o for o in old if o.kind == new.kind]
    source = next((o for o in alike if o.meaning == new.meaning), alike[0] if alike else None)
    if source is None:
        return None
    if policy is Policy.RESET:
        return Decision(new, Outcome.RESET, f"'{JOB_STATE}' is '{policy}'", source)
    reason = _change(source, new)
    if policy is Policy.KEEP and obstacle is not None and source.meaning == new.meaning:
        reason = obstacle(source, new) or reason
    return Decision(new, Outcome.RESET, reason, source)


def _change(old: Operation, new: Operation) -> str:
    """Describes the difference: the operation itself, or the first change below it."""
    if old.meaning != new.meaning and old.name != new.name:
        return f"it was '{old.name}'"
    # `below` is in the order from the sources up, so the first difference is the lowest.
    came = next((name for digest, name in new.below.items() if digest not in old.below), None)
    went = next((name for digest, name in old.below.items() if digest not in new.below), None)
    if came is None and went is None:
        return "its settings have changed (time to live, mini-batch or late rows)"
    if came is None or went is None:
        return f"below it, '{came or went}' has {'come' if came else 'gone'}"
    if came == went:
        return f"below it, '{came}' has changed"
    return f"below it, '{went}' is now '{came}'"


def _note(plan: LogicalPlan, found: dict[str, str]) -> None:
    """Adds the operation and all below it to `found`, sources first, each once."""
    if plan.digest not in found:
        # Inputs first: the order of insertion is the order of the report.
        for source in plan.inputs:
            _note(source, found)
        found[plan.digest] = named(plan)
