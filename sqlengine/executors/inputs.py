"""The sources of a graph: opens them, polls them, and remembers those that failed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager

from parser.errors import SqlError
from planner.graph.distribution import INCOMING
from planner.graph.physical import PhysicalPlan
from planner.logical import LookupJoin, Scan, ShuffleScan, Values
from planner.scalar import Scalar
from sqlengine.connectors.base import Busy, Source
from sqlengine.connectors.boundary.source import WalledSource
from sqlengine.connectors.chunks import Chunk
from sqlengine.connectors.environment import Environment
from sqlengine.executors.dimensions.opening import open_scan
from sqlengine.executors.failures import UnavailableSource
from sqlengine.executors.sources import Positions, RunningSource
from sqlengine.executors.steps.pace import ReadingPace

NO_MARKS: Mapping[str, Mapping[str, str]] = {}
# Seconds that a checkpoint which somebody waits for waits for an answer of a source.
_ANSWER_S = 1.0
# Rows by source, and the shards that have appeared, by source.
Polled = tuple[list[tuple[str, Chunk]], list[tuple[str, str]]]


class Inputs:
    """The sources of one graph. Graph thread only, but for `open`.

    `running`: sources by the id of their scan. `unstarted`: VALUES whose rows are not emitted yet.
    `failed`: errors of sources that are not read any more. `shuffle`: the rows that other subtasks
    send. `bounds`: offsets by source and shard at which reading stops for now, because a job is
    being moved. `pace`: how many rows of each source an epoch reads. `opened` may put another
    source in the place of one that was opened."""

    def __init__(
        self,
        environment: Environment,
        shuffle: Source | None = None,
        opened: Callable[[Scan, Source], Source] = lambda scan, source: source,
    ) -> None:
        self.running: dict[str, RunningSource] = {}
        self.unstarted: set[str] = set()
        self.failed: dict[str, SqlError] = {}
        self.bounds: Positions = {}
        self.pace = ReadingPace()
        self._environment = environment
        self._shuffle = shuffle
        self._opened = opened
        self._recovering = False
        self._read_first: set[str] = set()
        self._held: dict[str, dict[str, int]] = {}

    # ---- late answers ---------------------------------------------------------------------------

    @property
    def late(self) -> list[str]:
        """The sources that owe an answer to a poll."""
        return [n for n, s in self.running.items() if n not in self.failed and s.late]

    def wait_for_late(self, seconds: float) -> bool:
        """Waits for sources that owe an answer, at most so long; returns False if none does."""
        late = [s for n in self.late if isinstance(s := self.running[n].source, WalledSource)]
        for source in late:
            source.wait(seconds)
        return bool(late)

    def wait_for_versions(self, seconds: float) -> bool:
        """Waits for lookup tables of which a version is being made, at most so long for each;
        returns False if there is none."""
        caches = [s.full_cache for n, s in self.running.items() if n not in self.failed]
        return any(cache.wait(seconds) for cache in caches if cache is not None)

    def require_answers(self) -> None:
        """Raises Busy while a source owes an answer: what it knows belongs to no position. One
        that has come meanwhile is dropped, and read again."""
        for name in self.late:
            source = self.running[name].source
            if isinstance(source, WalledSource):
                source.wait(_ANSWER_S)
                source.drop_answer()
                if source.late:
                    table = self.running[name].scan.table.display
                    raise Busy(f"table '{table}' has not answered yet")

    # ---- changes of the plan ---------------------------------------------------------------------

    @contextmanager
    def recovering(self) -> Iterator[None]:
        """A source that cannot be opened does not stop a recovery: its jobs fail after it."""
        self._recovering = True
        yield
        self._recovering = False

    def open(self, plan: PhysicalPlan, new_nodes: Iterable[str]) -> dict[str, RunningSource]:
        """Opens the sources of new nodes of the plan. SqlError where one cannot be opened; then
        all are closed."""
        sources: dict[str, RunningSource] = {}
        with ExitStack() as opened:
            for node in map(plan.nodes.__getitem__, new_nodes):
                if isinstance(node.plan, Scan) and node.id not in self.running:
                    source = self._open(node.plan)
                    opened.callback(source.close)
                    sources[node.id] = RunningSource(node.plan, source)
            opened.pop_all()
        return sources

    def _open(self, scan: Scan) -> Source:
        if isinstance(scan, ShuffleScan):
            assert self._shuffle is not None, "the plan of a subtask runs in a subtask"
            return self._shuffle
        try:
            source = open_scan(scan, self._environment, patient=self._recovering, load=True)
            return self._opened(scan, source)
        except SqlError as error:
            if not self._recovering:
                raise
            return UnavailableSource(error)

    def switch(
        self, plan: PhysicalPlan, new: Mapping[str, RunningSource], new_nodes: Iterable[str]
    ) -> None:
        """Switches to another plan: adds `new` sources, closes those that the plan does not
        have."""
        self.running.update(new)
        for name in [s for s in self.running if s not in plan.nodes]:
            self.running.pop(name).source.close()
            self.failed.pop(name, None)
            self.pace.forget(name)
        read_first = self._read_first | lookup_scans(plan, new_nodes)
        self._read_first = {s for s in read_first if s in plan.nodes}
        self.unstarted = {v for v in self.unstarted if v in plan.nodes}
        self.unstarted |= {v for v in new_nodes if isinstance(plan.nodes[v].plan, Values)}

    @property
    def filtering(self) -> list[str]:
        """The scans whose sources can leave out rows that nobody wants."""
        return [name for name, source in self.running.items() if source.source.filters]

    def apply_filters(self, filters: Mapping[str, Scalar]) -> None:
        """Tells these sources which rows are wanted: all of those that have no filter."""
        for name in self.filtering:
            self.running[name].source.apply_filter(filters.get(name))

    def begin(
        self,
        sources: Mapping[str, RunningSource],
        starts: Mapping[str, Mapping[str, int]],
        marks: Mapping[str, Mapping[str, str]] = NO_MARKS,
    ) -> None:
        """Sets sources to where they began, in a recovery. One that the log does not know, because
        its job is planned differently now, begins as that of a new job does."""
        for name, source in sources.items():
            try:
                if name in starts:
                    # Before anything may fail: what it has read is known.
                    source.positions = dict(starts[name])
                    source.source.resume(starts[name], marks.get(name, {}))
                else:
                    source.begin()
            except SqlError as error:
                self.failed[name] = error

    # ---- polling ---------------------------------------------------------------------------------

    def poll(
        self, max_rows: int, *, shuffle_only: bool = False, except_for: Collection[str] = ()
    ) -> Polled:
        """Reads what there is, at most `max_rows` of each shard, and the shards that have appeared;
        nothing of the sources in `except_for`, and with `shuffle_only` nothing but what other
        subtasks send.

        New lookup tables, and those with a new version, are read to their ends before other
        sources. A source that raises is not read again (`failed`)."""
        if shuffle_only:
            return self._poll([INCOMING], max_rows)
        self._reload_lookup_tables()
        if self._read_first:
            first = self._read_first.difference(except_for)
            polled = self._poll(sorted(first), max_rows)
            # Other sources wait: a row must not be looked up in a table that is read half-way.
            if polled[0]:
                return polled
            self._read_first -= first.difference(self.late, self._unloaded())
            if self._read_first:
                return [], []
        return self._poll((n for n in self.running if n not in except_for), max_rows)

    def _unloaded(self) -> list[str]:
        """Returns the lookup tables that have no version yet."""
        caches = ((n, s.full_cache) for n, s in self.running.items() if n not in self.failed)
        return [name for name, cache in caches if cache is not None and not cache.loaded]

    def _reload_lookup_tables(self) -> None:
        for name, running in self.running.items():
            if running.full_cache is not None and name not in self.failed and not running.ended:
                try:
                    if running.full_cache.reload():
                        self._read_first.add(name)
                except SqlError as error:
                    self.failed[name] = error

    def _poll(self, names: Iterable[str], max_rows: int) -> Polled:
        chunks: list[tuple[str, Chunk]] = []
        opened: list[tuple[str, str]] = []
        for name in names:
            if name in self.failed or name not in self.running:
                continue
            source = self.running[name]
            try:
                rows = self.pace.rows(name, max_rows)
                shards, new = source.poll(rows, self.bounds.get(name, self._held.get(name)))
            except SqlError as error:
                self.failed[name] = error
                continue
            # In the record as `opened`, too: a recovery must begin these shards at 0 again.
            opened += [(name, shard) for shard in shards]
            chunks += [(name, chunk) for chunk in new]
        return chunks, opened

    def all_read(self, chunks: Iterable[tuple[str, Chunk]], most: int) -> bool:
        """True if there is little behind these chunks, as far as their sources know: each has fewer
        than `most` rows, and no more have come meanwhile than it has."""
        for name, chunk in chunks:
            if chunk.num_rows >= most:
                return False
            try:
                end = self.running[name].source.end(chunk.shard)
            except SqlError:
                return False
            if end is None or end - chunk.end > chunk.num_rows:
                return False
        return True

    def closed(self, chunks: Iterable[tuple[str, Chunk]]) -> tuple[tuple[str, str], ...]:
        """The shards that are gone, after they were read. None of a source that is paused, whose
        positions must stay."""
        read = {(name, chunk.shard) for name, chunk in chunks}
        shards = (
            (name, shard)
            for name, source in self.running.items()
            if name not in self.bounds and name not in self._held and name not in self.failed
            for shard in source.source.closed()
            if shard in source.positions
        )
        return tuple(s for s in shards if s not in read)

    def ended(self, chunks: Iterable[tuple[str, Chunk]]) -> list[str]:
        """The sources that have nothing after these chunks, ever, and VALUES to be emitted.

        Lookup tables that are reloaded end when all other sources have."""
        busy = {name for name, _ in chunks}
        ended = [name for name, s in self.running.items() if name not in busy and s.exhausted()]
        reloaded = [
            name for name, s in self.running.items() if s.full_cache is not None and not s.ended
        ]
        # A file that is reloaded never ends by itself; it must not keep a bounded job running for
        # ever.
        if reloaded and all(
            s.ended or name in ended or name in reloaded for name, s in self.running.items()
        ):
            ended += (name for name in reloaded if name not in busy)
        return ended + sorted(self.unstarted)

    def unfinished(self) -> list[str]:
        """The sources that have not ended, and VALUES that are not emitted."""
        return [name for name, s in self.running.items() if not s.ended] + sorted(self.unstarted)

    @property
    def finished(self) -> bool:
        """True if all sources are bounded and read to their end."""
        return not self.unstarted and all(s.ended for s in self.running.values())

    # ---- bounds ----------------------------------------------------------------------------------

    def hold(self, name: str) -> None:
        """Reads no further in a source until `release`: a job is to begin where it stands."""
        self._held = {**self._held, name: dict(self.running[name].positions)}

    def release(self) -> None:
        """Reads on in sources that were held. Any thread."""
        self._held = {}

    def pause(self, bounds: Positions) -> None:
        """Stops sources at these offsets, shards without one where they are now. What other
        subtasks send is still read."""
        self.bounds = {}
        for name, source in self.running.items():
            if name != INCOMING:
                given = bounds.get(name, {})
                # A shard that the source does not read here (of another subtask) has no bound here.
                known = {s: offset for s, offset in given.items() if s in source.positions}
                self.bounds[name] = {**source.positions, **known}

    def reached(self, positions: Positions) -> bool:
        """True if these sources are read exactly to these offsets."""
        return all(
            name in self.running and self.running[name].positions == offsets
            for name, offsets in positions.items()
        )

    def close(self) -> None:
        """Closes all sources."""
        for source in self.running.values():
            source.source.close()


def upstream_scans(plan: PhysicalPlan, nodes: Iterable[str]) -> set[str]:
    """The scans from which these nodes get their rows."""
    seen, left = set[str](), list(nodes)
    while left:
        name = left.pop()
        if name not in seen and name in plan.graph.nodes:
            seen.add(name)
            left += plan.graph.nodes[name].inputs
    return {name for name in seen if isinstance(plan.graph.nodes[name].plan, Scan)}


def lookup_scans(plan: PhysicalPlan, new_nodes: Iterable[str]) -> set[str]:
    """The scans of tables in which new nodes look rows up."""
    nodes = plan.graph.nodes
    joins = (nodes[n] for n in new_nodes if n in nodes)
    return upstream_scans(plan, [j.inputs[1] for j in joins if isinstance(j.plan, LookupJoin)])
