"""`make demo`: many rules over a stream of host events, changed while it runs, through a SIGKILL,
nothing lost."""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table

from demo.events import ATTACKS, generate, spread
from demo.feeder import Feeder
from demo.life import await_rollback, explain, refuse_broken, submit_noisy
from demo.machine import watch
from demo.rules import (
    BURSTS,
    BY_NAME,
    MACHINE,
    RULES,
    SECOND_VERSION,
    TABLES,
    WITHDRAWN,
    Rule,
    count_bursts,
    indicators,
)
from demo.server import Server
from sqlengine.client import Client, Json

TOPICS = ("events", "machine", "alerts", "bursts")
INDICATORS = 200


class Story:
    """Prints events in lines, and alerts as they come."""

    def __init__(self, client: Client, console: Console) -> None:
        self.client = client
        self.console = console
        self.began = time.monotonic()
        self.lines: list[str] = []
        self.alerts: list[Json] = []
        self.by_rule: Counter[str] = Counter()
        self.second_life = 0.0
        self.first = -1  # the offset of the first alert
        self._offset = 0
        self._lock = threading.Lock()

    def say(self, text: str) -> None:
        line = f"{time.monotonic() - self.began:5.1f} s  {text}"
        self.lines.append(line)
        if not self.console.is_terminal:
            self.console.print(line, highlight=False, markup=False, soft_wrap=True)

    def read(self) -> None:
        """Takes the alerts that are new in the topic."""
        with self._lock:
            for record in _records(self.client, "alerts", self._offset):
                alert = json.loads(str(record["value"]))
                self.alerts.append(alert)
                self.by_rule[alert["rule"]] += 1
                self._offset = int(str(record["offset"])) + 1
                self.first = int(str(record["offset"])) if self.first < 0 else self.first

    def picture(self) -> Group:
        """The live table: what happened, the last alerts, and how many of each rule."""
        last = Table(
            "time", "level", "rule", "host", "what", title=f"{len(self.alerts)} alerts", expand=True
        )
        for alert in self.alerts[-12:]:
            what = str(alert["what"] or "")[-60:]
            last.add_row(
                str(alert["ts"])[11:19],
                str(alert["level"]),
                str(alert["rule"]),
                str(alert["host"]),
                what,
            )
        counts = ", ".join(f"{rule} {n}" for rule, n in self.by_rule.most_common(8))
        return Group("\n".join(self.lines[-14:]), last, counts)


def _records(client: Client, topic: str, offset: int) -> list[Json]:
    found: list[Json] = []
    while True:
        page = client.get(f"/api/v1/topics/{topic}/records", offset=offset, limit=5000)["records"]
        assert isinstance(page, list)
        if not page:
            return found
        found += page
        offset = int(str(page[-1]["offset"])) + 1


def bring_rules(server: Server, story: Story, machine: bool) -> int:
    """Submits the rules in all four ways (CLI, REST, folder, topic), and returns their number."""
    staging = server.folder / "staging"
    staging.mkdir()
    (staging / "tables.sql").write_text(TABLES)
    for rule in (*indicators(INDICATORS), *RULES[:4]):
        (staging / f"{rule.name}.sql").write_text(rule.sql)
    staging.rename(server.jobs / "feed")
    wait_for_jobs(server.client, INDICATORS + 5)
    story.say(f"folder: {INDICATORS + 4} rules and the tables, in one change")
    for rule in RULES[4:7]:
        server.client.put(f"/api/v1/jobs/{rule.name}", rule.sql.encode())
    story.say("REST: 3 rules")
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{name}.sql" for name in (RULES[7].name, "bursts")]
        for file, sql in zip(files, (RULES[7].sql, BURSTS), strict=True):
            file.write_text(sql)
        command = [
            sys.executable,
            "-m",
            "sqlengine.cli",
            "submit",
            "--server",
            server.client.server,
        ]
        subprocess.run([*command, *map(str, files)], check=True, stdout=subprocess.DEVNULL)
    story.say("sql submit: a rule, and a window that counts failed logins")
    late = [*RULES[8:], MACHINE] if machine else RULES[8:]
    for rule in late:
        send_command(
            server.client, {"id": rule.name, "op": "submit", "name": rule.name, "sql": rule.sql}
        )
    wait_for_jobs(server.client, INDICATORS + 5 + 5 + len(late))
    story.say(f"command topic: {len(late)} rules")
    return INDICATORS + 10 + len(late)


def send_command(client: Client, command: Json) -> None:
    client.post("/api/v1/topics/_commands/records", json.dumps(command).encode() + b"\n")


def wait_for_jobs(client: Client, number: int) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        jobs = client.get("/api/v1/jobs")["jobs"]
        assert isinstance(jobs, list)
        if sum(j["state"] in ("running", "defined") for j in jobs) >= number:
            return
        time.sleep(0.05)
    raise SystemExit(f"{number} jobs should run by now; the server's log says why they do not")


def change_rules(server: Server, story: Story) -> list[float]:
    """Replaces a rule, withdraws another, and adds and removes a few, while events flow; gives ms
    per change."""
    times = []

    def timed(what: str, method: str, name: str, sql: str = "") -> None:
        began = time.perf_counter()
        server.client.request(method, f"/api/v1/jobs/{name}", sql.encode(), {})
        times.append((time.perf_counter() - began) * 1000)
        if what:
            story.say(f"{what}: in effect after {times[-1]:.0f} ms")

    timed("odd-port replaced while events flow", "PUT", "odd-port", SECOND_VERSION.sql)
    timed(f"{WITHDRAWN} withdrawn while events flow", "DELETE", WITHDRAWN)
    for n in range(10):
        sql = (
            "INSERT INTO alerts SELECT 'extra', 'low', id, ts, host, image FROM events WHERE"
            f" dst_port = {70000 + n}"
        )
        timed("", "PUT", f"extra-{n}", sql)
        timed("", "DELETE", f"extra-{n}")
    return times


def caught_up(server: Server, feeders: list[Feeder]) -> None:
    """Waits until the server has read everything that was sent."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        before = server.metric("sqlengine_epochs_total")
        time.sleep(0.3)
        if server.metric("sqlengine_epochs_total") == before:
            return


def verdict(story: Story, events: Feeder, bursts: list[Json]) -> list[str]:
    """Differences between what the engine said and a count in plain Python; none is the good
    news."""
    found: dict[str, list[int]] = {}
    for alert in story.alerts:
        if alert["rule"] != MACHINE.name:
            found.setdefault(str(alert["rule"]), []).append(int(str(alert["id"])))
    problems = []
    for rule in [
        r for r in (*RULES, *indicators(INDICATORS)) if r.name not in ("odd-port", WITHDRAWN)
    ]:
        expected = [int(str(e["id"])) for e in events.sent if rule.test(e)]
        if found.get(rule.name, []) != expected:
            problems.append(
                f"{rule.name}: {len(found.get(rule.name, []))} alerts, {len(expected)} expected"
            )
    problems += _switched(events, BY_NAME["odd-port"], SECOND_VERSION, found)
    problems += _switched(events, BY_NAME[WITHDRAWN], None, found)
    ours = {
        (b["src_ip"], str(b["window_end"])[:19].replace("T", " ")): b["failures"] for b in bursts
    }
    if ours != count_bursts(events.sent):
        problems.append(f"bursts: {ours}, expected {count_bursts(events.sent)}")
    return problems


def _switched(
    events: Feeder, old: Rule, new: Rule | None, found: dict[str, list[int]]
) -> list[str]:
    """Returns a problem unless there is an event before which all alerts are of the old version,
    and from which on of the new one."""
    before, after = _ids(events, old), _ids(events, new)
    ours, theirs = found.get(old.name, []), found.get(new.name, []) if new else []
    low, high = (ours[-1] + 1 if ours else 0), (theirs[0] if theirs else len(events.sent))
    for at in range(low, high + 1):
        if ours == [i for i in before if i < at] and theirs == [i for i in after if i >= at]:
            return []
    return [f"{old.name}: no single moment of change explains {len(ours)} and {len(theirs)} alerts"]


def _ids(events: Feeder, rule: Rule | None) -> list[int]:
    """Returns the numbers of the events that a rule matches."""
    return [int(str(e["id"])) for e in events.sent if rule is not None and rule.test(e)]


def play(server: Server, story: Story, count: int, machine: bool) -> int:
    story.say(
        f"server ready after {server.start():.1f} s; idle memory"
        f" {server.metric('sqlengine_memory_bytes') / 1e6:.0f} MB"
    )
    for topic in TOPICS:
        server.client.post("/api/v1/topics", {"name": topic})
    rules = bring_rules(server, story, machine)
    feeders = [
        Feeder(server.client, "events", generate(7, count, spread(count, ATTACKS)), 500, 0.02)
    ]
    own = Feeder(server.client, "machine", (), 1, 0.0)
    if machine:
        own = Feeder(server.client, "machine", watch(lambda: own.stopped()), 1, 0.0)
        feeders.append(own)
    for feeder in feeders:
        feeder.start()
    events = feeders[0]
    _until(lambda: len(events.sent) > count // 4, story)
    times = change_rules(server, story)
    refuse_broken(server.client, story.say)
    submit_noisy(server.client)
    await_rollback(server.client, story.say)
    _until(lambda: len(events.sent) > count // 2, story)
    server.kill()
    story.say(f"server killed with SIGKILL after {len(events.sent):,} events")
    story.say(f"server ready again after {server.start():.1f} s, and goes on")
    story.second_life = server.metric("sqlengine_cpu_seconds_total")
    _until(lambda: not events.alive, story)
    own.stop()
    caught_up(server, feeders)
    story.read()
    explain(server, story.alerts[0], story.first, story.say)
    bursts = [json.loads(str(r["value"])) for r in _records(server.client, "bursts", 0)]
    problems = verdict(story, events, bursts)
    summary(server, story, feeders, rules, times, len(bursts), problems)
    return 1 if problems else 0


def _until(done: object, story: Story) -> None:
    assert callable(done)
    while not done():
        time.sleep(0.1)
        story.read()


def summary(
    server: Server,
    story: Story,
    feeders: list[Feeder],
    rules: int,
    times: list[float],
    bursts: int,
    problems: list[str],
) -> None:
    sent = sum(len(f.sent) for f in feeders)
    cpu = server.metric("sqlengine_cpu_seconds_total") - story.second_life
    read = server.metric("sqlengine_records_in_total")
    ranked = sorted(times)
    rows = {
        "events": (
            f"{sent:,}, of them {len(feeders[-1].sent) if len(feeders) > 1 else 0:,} of this"
            " machine"
        ),
        "rules": f"{rules}",
        "alerts": (
            f"{len(story.alerts):,} of {len(story.by_rule)} rules, {bursts} bursts of failed logins"
        ),
        "time to effect": (
            f"median {statistics.median(times):.0f} ms, worst {ranked[-1]:.0f} ms of {len(times)}"
            " changes"
        ),
        "throughput": (
            f"{read / cpu:,.0f} events per CPU second since the restart, HTTP and JSON included"
        ),
        "memory": f"{server.metric('sqlengine_memory_bytes') / 1e6:.0f} MB",
        "batches sent again": f"{sum(f.retries for f in feeders)} tries while the server was away",
        "count by another path": (
            "equal, nothing lost, nothing doubled" if not problems else "; ".join(problems)
        ),
    }
    table = Table(title="summary", show_header=False)
    for name, value in rows.items():
        table.add_row(name, value)
    story.console.print(table)


def main() -> None:
    options = argparse.ArgumentParser(prog="demo", description=__doc__)
    options.add_argument("--events", type=int, default=120_000, help="made-up events to send")
    options.add_argument(
        "--no-machine", action="store_true", help="leave this machine's own processes out"
    )
    given = options.parse_args()
    console = Console()
    with tempfile.TemporaryDirectory(prefix="demo-") as folder:
        server = Server(Path(folder))
        story = Story(server.client, console)
        try:
            if not console.is_terminal:
                code = play(server, story, given.events, not given.no_machine)
            else:
                with Live(
                    get_renderable=story.picture,
                    console=console,
                    refresh_per_second=4,
                    transient=True,
                ):
                    code = play(server, story, given.events, not given.no_machine)
        finally:
            server.stop()
    sys.exit(code)


if __name__ == "__main__":
    main()
