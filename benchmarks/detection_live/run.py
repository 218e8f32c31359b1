"""The detection runs while its servers are killed; then each alert is judged by an undisturbed run."""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import sigma
from benchmarks.detection_live.events import Events, undisturbed
from benchmarks.detection_live.senders import Pace, Senders, Watcher
from benchmarks.detection_live.site import Site, site
from benchmarks.page import Section, Table
from benchmarks.scenarios import topics
from benchmarks.scenarios.kills import kill_in_turn
from benchmarks.scenarios.measured import Measured
from benchmarks.scenarios.sql_server import Share
from benchmarks.scenarios.usage import Usage

_PATIENCE_S = 300.0
_SETTLED_S = 2.0  # what comes twice comes so soon after the rest
Found = Counter[tuple[str, int]]


@dataclass(frozen=True)
class Wanted:
    """What is run. `rules`: so many, of which those come first that find most. `rate`: events a second; `copies`: of the log, that differ in their texts."""

    minutes: float = 6.0
    kills: int = 10
    rules: int = 1414
    rate: float = 400.0
    copies: int = 4
    share: Share = field(default_factory=Share)

    @property
    def events(self) -> int:
        return int(self.minutes * 60 * self.rate)


@dataclass(frozen=True)
class Judged:
    """How many alerts were due in each sink, and what is wrong with those that came; `keys`: requests
    that came again with other contents."""

    due: int
    lost: dict[str, int]
    doubled: dict[str, int]
    wrong: dict[str, int]
    repeated: int
    keys: int

    @property
    def faults(self) -> int:
        return (
            sum(map(sum, (c.values() for c in (self.lost, self.doubled, self.wrong)))) + self.keys
        )


@dataclass(frozen=True)
class Result:
    """What came of it. `seconds`: from the first event until its last alert; `again`: events that went
    over syslog once more."""

    wanted: Wanted
    seconds: float
    again: int
    judged: Judged
    measured: Measured

    @property
    def per_second(self) -> float:
        return self.wanted.events / self.seconds

    @property
    def per_cpu_second(self) -> float:
        return self.wanted.events / self.measured.cpu_s["sql"]

    @property
    def good(self) -> bool:
        over = self.wanted.share.exceeded(self.measured.peak_mb["sql"])
        return self.judged.faults == 0 and not over


def run(wanted: Wanted, folder: Path | None = None) -> Result:
    finding = Counter(rule for rule, _ in sigma.expected())
    rules = sorted(sigma.all_rules(), key=lambda r: -finding[r.id])[: wanted.rules]
    events = undisturbed(rules, wanted.copies)
    with tempfile.TemporaryDirectory(prefix="detection-") as name:
        where = folder or Path(name)
        with site(where, wanted.share, rules) as servers, Watcher(servers) as watcher:
            return _run(wanted, events, servers, watcher)


def _run(wanted: Wanted, events: Events, servers: Site, watcher: Watcher) -> Result:
    usage, own = Usage(servers.all), time.process_time()
    pace = Pace(wanted.rate, wanted.events)
    due = Counter((r, events.id(n)) for n in range(wanted.events) for r in events.due(n))
    with Senders(servers, events, pace, watcher.seen) as senders:
        outages = kill_in_turn(servers.turns, wanted.minutes * 60, wanted.kills, usage)
        _wait("events, as their senders know", lambda: senders.finished)
    _wait("alerts as a reader of Kafka sees them", lambda: len(watcher.alerts) >= due.total())
    _wait("alerts at the webhook", lambda: due.keys() <= _pushed(servers).keys())
    seconds = time.time() - pace.at(0)
    time.sleep(_SETTLED_S)
    usage.end()
    usage.cpu_s["senders and judge"] = time.process_time() - own
    numbers = {events.id(n): n for n in range(wanted.events)}
    late = [(at - pace.at(numbers[event])) * 1000 for event, at in list(watcher.alerts)]
    measured = Measured.of(usage, late, outages)
    return Result(wanted, seconds, senders.again, _judge(servers, due), measured)


def _wait(what: str, condition: Callable[[], bool]) -> None:
    """Waits until it is so. What does not come is told and counted, and costs the others
    nothing."""
    deadline = time.monotonic() + _PATIENCE_S
    while not condition():
        if time.monotonic() >= deadline:
            print(f"not all within {_PATIENCE_S:g} s: {what}", file=sys.stderr)
            return
        time.sleep(0.5)


def _judge(servers: Site, due: Found) -> Judged:
    told = Counter(
        (row["rule_id"], row["event_id"])
        for row, _ in topics.committed(servers.kafka.address, "alerts")
    )
    pushed, got = _pushed(servers), servers.web.got()
    bodies: dict[str, set[bytes]] = {}
    for request in got:
        bodies.setdefault(request.headers["idempotency-key"], set()).add(request.body)
    sinks = {"kafka": told, "webhook": pushed}
    return Judged(
        due.total(),
        {name: (due - found).total() for name, found in sinks.items()},
        {name: sum(n - 1 for n in found.values()) for name, found in sinks.items()},
        {name: len(found.keys() - due.keys()) for name, found in sinks.items()},
        len(got) - len(bodies),
        sum(len(found) > 1 for found in bodies.values()),
    )


def _pushed(servers: Site) -> Found:
    """The alerts of the webhook: a request with a key that came before is the same request again."""
    requests = {got.headers["idempotency-key"]: got.json for got in servers.web.got()}
    return Counter((a["rule_id"], a["event_id"]) for alerts in requests.values() for a in alerts)


def section(result: Result) -> Section:
    """Returns the page's part of it."""
    wanted, judged = result.wanted, result.judged
    rows = [
        ["time; rules; the engine's share", f"{wanted.minutes:g} min; {wanted.rules:,}; {wanted.share}"],
        *result.measured.kills,
        ["events (half over syslog, half over Kafka)", f"{wanted.events:,}"],
        ["events a second, until the last alert came", f"{result.per_second:,.0f}"],
        ["events a CPU second of the engine, with its starts", f"{result.per_cpu_second:,.0f}"],
        result.measured.latency,
        ["alerts due in each sink", f"{judged.due:,}"],
        ["lost: Kafka / webhook", _two(judged.lost)],
        ["twice: Kafka / webhook", _two(judged.doubled)],
        ["never due: Kafka / webhook", _two(judged.wrong)],
        ["webhook: requests again with the key of the first", f"{judged.repeated:,}"],
        ["webhook: keys with two contents", f"{judged.keys:,}"],
        ["syslog: events sent again, not confirmed after 10 s", f"{result.again:,}"],
        *result.measured.usage,
    ]  # fmt: skip
    return Section(
        "detection_live",
        "A detection: syslog and Kafka → 1,414 rules → Kafka and a webhook",
        f"{wanted.rate:,.0f} events a second (real ones, and copies with changed tokens) while servers are killed and started again. Due is what the same"
        " rules find in the same events undisturbed, without connectors. Latency: from when an event happened until its"
        " alert could be read from Kafka (`read_committed`), over all kills. Syslog has no acknowledgements: its sender"
        " sends again what is not in a topic of arrived ids after 10 s, and the rules see the first of an id.",
        [Table("The detection", ["", "found"], rows)],
        command=f"python -m benchmarks.detection_live --minutes {wanted.minutes:g} --kills {wanted.kills}",
    )


def _two(counts: dict[str, int]) -> str:
    return f"{counts['kafka']:,} / {counts['webhook']:,}"
