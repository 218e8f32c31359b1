"""The demo's rules: SQL for the engine, and beside each the same rule in plain Python, for the
count by another path."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from demo.hosts import FIELDS, Event

Predicate = Callable[[Event], bool]

_TYPES = {
    "pid": "BIGINT",
    "ppid": "BIGINT",
    "src_port": "INT",
    "dst_port": "INT",
    "initiated": "BOOLEAN",
}
_COLUMNS = ", ".join(
    f"`{f}` {_TYPES.get(f, 'STRING')}" for f in FIELDS if f not in ("ts", "scenario")
)


def table(name: str) -> str:
    """The event table over a topic. `ts` is the event's time; events may come two seconds out of
    order."""
    return (
        f"CREATE TABLE {name} (id BIGINT, ts TIMESTAMP(3), {_COLUMNS}, WATERMARK FOR ts AS ts -"
        f" INTERVAL '2' SECOND) WITH ('connector' = 'topic', 'topic' = '{name}', 'format' = 'json',"
        " 'scan.startup.mode' = 'earliest-offset');\n"
    )


TABLES = (
    table("events")
    + table("machine")
    + """CREATE TABLE alerts (rule STRING, level STRING, id BIGINT, ts TIMESTAMP(3), host STRING, what STRING)
WITH ('connector' = 'topic', 'topic' = 'alerts', 'format' = 'json');
CREATE TABLE bursts (src_ip STRING, failures BIGINT, window_end TIMESTAMP(3))
WITH ('connector' = 'topic', 'topic' = 'bursts', 'format' = 'json');
"""
)


@dataclass(frozen=True)
class Rule:
    """`where` and `test` say the same thing. `what` is the column that the alert shows."""

    name: str
    level: str
    where: str
    test: Predicate
    what: str = "command_line"
    source: str = "events"

    @property
    def sql(self) -> str:
        return (
            f"INSERT INTO alerts SELECT '{self.name}', '{self.level}', id, ts, host, {self.what} "
            f"FROM {self.source} WHERE {self.where}"
        )


def _text(event: Event, field: str) -> str | None:
    value = event[field]
    return None if value is None else str(value)


def has(field: str, *parts: str) -> Predicate:
    """All parts are in the field, whatever their case."""
    return lambda e: (t := _text(e, field)) is not None and all(p in t.lower() for p in parts)


def equals(field: str, value: str) -> Predicate:
    return lambda e: e[field] == value


def ends(field: str, *tails: str) -> Predicate:
    return lambda e: (t := _text(e, field)) is not None and t.lower().endswith(tails)


def matches(field: str, pattern: str) -> Predicate:
    return lambda e: (t := _text(e, field)) is not None and re.search(pattern, t) is not None


def both(*tests: Predicate) -> Predicate:
    return lambda e: all(t(e) for t in tests)


RULES = (
    Rule("encoded-powershell", "high", "LOWER(image) LIKE '%\\powershell.exe' AND LOWER(command_line) LIKE '% -enc %'",
         both(ends("image", "\\powershell.exe"), has("command_line", " -enc "))),
    Rule("memory-dump", "critical", "LOWER(command_line) LIKE '%comsvcs%minidump%'",
         matches("command_line", "(?is)comsvcs.*minidump")),
    Rule("dump-file", "high", "event_type = 'file' AND LOWER(target_filename) LIKE '%.dmp'",
         both(lambda e: e["event_type"] == "file", ends("target_filename", ".dmp")), "target_filename"),
    Rule("remote-service", "high", "LOWER(target_filename) LIKE '%psexesvc%' OR LOWER(image) LIKE '%\\psexec%'",
         lambda e: has("target_filename", "psexesvc")(e) or has("image", "\\psexec")(e), "image"),
    Rule("program-in-public-folder", "medium",
         "event_type = 'process_creation' AND REGEXP(image, '^C:.Users.Public.[A-Za-z0-9]+[.]exe$')",
         both(lambda e: e["event_type"] == "process_creation", matches("image", r"^C:.Users.Public.[A-Za-z0-9]+[.]exe$")),
         "image"),
    Rule("known-bad-network", "critical", "CIDR_MATCH(dst_ip, '185.220.101.0/24')",
         lambda e: str(e["dst_ip"] or "").startswith("185.220.101."), "dst_ip"),
    Rule("locked-files", "critical", "target_filename LIKE '%.locked'",
         lambda e: str(e["target_filename"] or "").endswith(".locked"), "target_filename"),
    Rule("download-to-shell", "high", "os = 'linux' AND REGEXP(command_line, '(curl|wget).*[|] *(ba)?sh')",
         both(lambda e: e["os"] == "linux", matches("command_line", r"(curl|wget).*[|] *(ba)?sh"))),
    Rule("login-from-outside", "medium",
         "event_type = 'authentication' AND outcome = 'success' AND (src_ip LIKE '10.%') IS NOT TRUE",
         lambda e: e["event_type"] == "authentication" and e["outcome"] == "success"
         and not str(e["src_ip"] or "").startswith("10."), "src_ip"),
    Rule("odd-port", "low", "initiated AND dst_port BETWEEN 8000 AND 9000 AND dst_host IS NOT NULL",
         lambda e: e["initiated"] is True and 8000 <= int(e["dst_port"] or 0) <= 9000 and e["dst_host"] is not None,
         "dst_host"),
)  # fmt: skip
BY_NAME = {rule.name: rule for rule in RULES}

# Replaced while events flow: version 2 says 'v2' and leaves connections to port 8443 out.
SECOND_VERSION = Rule(
    "odd-port-v2", "low", "initiated AND dst_port BETWEEN 8000 AND 9000 AND dst_port <> 8443 AND dst_host IS NOT NULL",
    lambda e: BY_NAME["odd-port"].test(e) and e["dst_port"] != 8443, "dst_host",
)  # fmt: skip
WITHDRAWN = "login-from-outside"
MACHINE = Rule("machine-process", "info", "event_type = 'process_creation'",
               lambda e: e["event_type"] == "process_creation", "image", "machine")  # fmt: skip
BURSTS = """INSERT INTO bursts SELECT src_ip, COUNT(*), window_end
FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND))
WHERE event_type = 'authentication' AND outcome = 'failure'
GROUP BY src_ip, window_start, window_end HAVING COUNT(*) >= 5
"""


def indicators(count: int) -> list[Rule]:
    """Rules as a threat feed gives them: one network or file name each. Most never match."""
    rules = []
    for n in range(count):
        if n % 2:
            name = f"implant-{n:04}.exe"
            rules.append(
                Rule(
                    f"ioc-{n:04}",
                    "high",
                    f"LOWER(command_line) LIKE '%{name}%'",
                    has("command_line", name),
                )
            )
        else:
            ip = f"203.0.{n // 256}.{n % 256}"
            rules.append(
                Rule(f"ioc-{n:04}", "high", f"dst_ip = '{ip}'", equals("dst_ip", ip), "dst_ip")
            )
    return rules


def count_bursts(events: Iterable[Event]) -> dict[tuple[str, str], int]:
    """(source, window's end) -> failed logins, for windows that the watermark has passed, in plain
    Python."""
    counts: dict[tuple[str, datetime], int] = defaultdict(int)
    latest = datetime.min
    for e in events:
        at = datetime.strptime(str(e["ts"]), "%Y-%m-%d %H:%M:%S.%f")
        latest = max(latest, at)
        if e["event_type"] == "authentication" and e["outcome"] == "failure":
            counts[str(e["src_ip"]), _window_end(at)] += 1
    closed = latest - timedelta(seconds=2)
    return {
        (ip, f"{end:%Y-%m-%d %H:%M:%S}"): n
        for (ip, end), n in counts.items()
        if n >= 5 and end - timedelta(milliseconds=1) <= closed
    }


def _window_end(at: datetime) -> datetime:
    """The end of the ten seconds that a time falls into."""
    return at.replace(second=at.second // 10 * 10, microsecond=0) + timedelta(seconds=10)
