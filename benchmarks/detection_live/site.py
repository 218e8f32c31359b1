"""The servers of the detection, with its tables and rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks import sigma
from benchmarks.scenarios import topics
from benchmarks.scenarios.sql_server import Share, SqlServer
from tests.conformance.sigma import Rule, table_of
from tests.servers.kafka import KafkaServer
from tests.servers.process import ServerProcess, free_ports
from tests.servers.rsyslog import Rsyslog
from tests.servers.webhook import WebhookServer

# Syslog does not say what arrived. So the ids of what did are told in a topic of Kafka, the sender
# sends again what does not come to be there, and what comes twice is one event.
_TABLES: Final = """
CREATE TABLE messages (message STRING, id AS JSON_VALUE(message, '$._id'), now AS PROCTIME())
WITH ('connector' = 'syslog', 'listen' = 'tcp://127.0.0.1:{syslog}', 'format' = 'syslog');
CREATE TABLE records (message STRING) WITH ('connector' = 'kafka', 'topic' = 'events', 'format' = 'raw',
  'properties.bootstrap.servers' = '{kafka}', 'scan.startup.mode' = 'earliest-offset');
CREATE TABLE arrived (message STRING) WITH ('connector' = 'topic', 'topic' = '{table}', 'format' = 'raw');
CREATE TABLE seen (id STRING) WITH ('connector' = 'kafka', 'topic' = 'seen', 'format' = 'json',
  'properties.bootstrap.servers' = '{kafka}', 'sink.delivery-guarantee' = 'exactly-once',
  'sink.transactional-id-prefix' = 'detection');
CREATE TABLE told (rule_id STRING, level STRING, event_id BIGINT) WITH ('connector' = 'kafka', 'topic' = 'alerts',
  'properties.bootstrap.servers' = '{kafka}', 'format' = 'json', 'sink.delivery-guarantee' = 'exactly-once',
  'sink.transactional-id-prefix' = 'detection');
CREATE TABLE web (rule_id STRING, level STRING, event_id BIGINT)
WITH ('connector' = 'webhook', 'url' = '{web}/alerts', 'format' = 'json', 'sink.batch.max-rows' = '100');
"""
_INTAKE: Final = """
SET 'table.exec.state.ttl' = '10 min';
EXECUTE STATEMENT SET BEGIN
INSERT INTO seen SELECT id FROM messages;
INSERT INTO arrived SELECT message FROM
  (SELECT message, ROW_NUMBER() OVER (PARTITION BY id ORDER BY now) AS n FROM messages) WHERE n = 1;
INSERT INTO arrived SELECT message FROM records;
END;
"""


@dataclass(frozen=True)
class Site:
    """All servers, which run."""

    kafka: KafkaServer
    rsyslog: Rsyslog
    web: WebhookServer
    sql: SqlServer

    @property
    def all(self) -> list[ServerProcess]:
        return [self.sql, self.kafka, self.rsyslog, self.web]

    @property
    def turns(self) -> list[ServerProcess]:
        """Who is killed after whom."""
        return [self.sql, self.kafka, self.sql, self.rsyslog, self.sql, self.web]


@contextmanager
def site(folder: Path, share: Share, rules: Sequence[Rule]) -> Iterator[Site]:
    """Starts all servers, with tables, topics and rules."""
    (syslog,) = free_ports(1)
    with ExitStack() as stack:
        kafka = stack.enter_context(KafkaServer(folder / "kafka"))
        to = (syslog, "tcp", "octet-counted")
        rsyslog = stack.enter_context(Rsyslog(folder / "rsyslog", to, keeps=False))
        web = stack.enter_context(WebhookServer(folder / "web"))
        topics.make(kafka.address, {"events": 2, "seen": 1, "alerts": 1})
        sql = stack.enter_context(SqlServer(folder / "sql", share))
        found = Site(kafka, rsyslog, web, sql)
        sql.submit(_texts(folder / "jobs", found, syslog, rules))
        yield found


def _texts(folder: Path, servers: Site, syslog: int, rules: Sequence[Rule]) -> Path:
    """Writes the jobs into a folder."""
    folder.mkdir()
    names = {"kafka": servers.kafka.address, "web": servers.web.url, "table": sigma.TABLE}
    tables = _TABLES.format(**names, syslog=syslog)
    events = table_of(sigma.TABLE, sigma.log(), sigma.all_rules())
    (folder / "tables.sql").write_text(f"{tables}{events};\n")
    (folder / "intake.sql").write_text(_INTAKE)
    for rule in rules:
        (folder / f"{rule.job}.sql").write_text(_both(rule))
    return folder


def _both(rule: Rule) -> str:
    """A rule whose alerts go to both."""
    told = rule.sql.replace("INSERT INTO alerts", "INSERT INTO told", 1)
    web = rule.sql.replace("INSERT INTO alerts", "INSERT INTO web", 1)
    return f"EXECUTE STATEMENT SET BEGIN\n{told};\n{web};\nEND;\n"
