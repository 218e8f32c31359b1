"""`sql backtest`: rules over the past of the tables that they read."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from sqlengine.cli.messages import output_option, show_error
from sqlengine.cli.options import (
    connection_options,
    define_option,
    files_option,
    pairs,
    place_options,
)
from sqlengine.cli.rules.alerts_file import AlertsFile
from sqlengine.cli.rules.backtest_names import archives_of, check_names
from sqlengine.cli.rules.backtest_pace import Pace
from sqlengine.cli.rules.backtest_report import Report, show, show_json
from sqlengine.cli.rules.collected import collected, source_of
from sqlengine.cli.rules.server_texts import jobs_of, texts_of
from sqlengine.cli.texts import Texts, Unread, rule_texts
from sqlengine.cli.values import SIZE, Moment
from sqlengine.cli.waiting import Waiting, at_work, connect
from sqlengine.client import Client, local_server
from sqlengine.config import Cluster
from sqlengine.session import ROWS_PER_READ
from sqlengine.sigma.files import TABLES
from sqlengine.system.file_access import FileAccess

if TYPE_CHECKING:
    from sqlengine.broker.base import Broker
    from sqlengine.trial.past.backtest import Backtest
    from sqlengine.trial.past.tables import Past
    from sqlengine.trial.rules import TrialRule

_LIVE: Final = "live"
_NICE: Final = 10
_ELSEWHERE: Final = (
    "the rules read topics: start the server or name it (--server), open its data folder (--data),"
    " or name files that have the past of tables (--table NAME=PATH)"
)
Rules = Mapping[str, "TrialRule"]


@dataclass(frozen=True)
class Asked:
    """The options of the command that say where it runs."""

    where: str
    cluster: Cluster
    share: float | None
    memory: int | None
    data: str | None
    server: str | None
    token_file: str | None

    def client(self) -> Client:
        """Returns a client of the server, or of that which uses the data folder."""
        local = None if self.data is None else local_server(Path(self.data))
        return connect(self.server or local, self.token_file)


@click.command(short_help="Run rules over the past: how often would they have fired?")
@click.argument("rules", nargs=-1, required=True, metavar="FOLDER|FILE|JOB...")
@click.option("--since", type=Moment(), help="Where the past begins: 7d, or 2026-01-31T12:00.")
@click.option("--until", type=Moment(), help="Where it ends (default: now).")
@click.option(
    "--table",
    "tables",
    multiple=True,
    metavar="NAME=PATH",
    help="A file or a folder that has the past of a table: Parquet, JSON lines, CSV, .gz; may be"
    " repeated.",
)
@click.option(
    "--against",
    metavar="live|PATH",
    help="Compare with the versions that the server runs, or with those of a file or folder.",
)
@click.option("--top", default="", metavar="COLUMN,...", help="Count the values of these columns.")
@click.option("--samples", default=3, show_default=True, help="Alerts shown of each difference.")
@click.option(
    "--out", type=click.Path(dir_okay=False), help="Write the alerts here, as JSON lines."
)
@place_options
@click.option(
    "--share", type=click.FloatRange(0.01, 64), help="Take at most so much of a core: 0.5 is half."
)
@click.option("--memory", type=SIZE, help="How much state all rules may have, such as 2GB.")
@click.option("--data", help="Data folder that has the topics (default: ask the server).")
@files_option("rules")
@define_option
@connection_options
@output_option(["table", "json"], "'json' is an object a rule, then one for all, for programs.")
@click.pass_context
def backtest(
    ctx: click.Context,
    rules: Sequence[str],
    since: int | None,
    until: int | None,
    tables: Sequence[str],
    against: str | None,
    top: str,
    samples: int,
    out: str | None,
    where: str,
    master: str | None,
    spark_conf: tuple[str, ...],
    share: float | None,
    memory: int | None,
    data: str | None,
    files: tuple[Path, ...],
    define: Sequence[str],
    server: str | None,
    token_file: str | None,
    output: str,
) -> None:
    """Run rules over the past of the tables that they read: topics of the server, which are read
    from here, logs, and files.

    Says how often each rule would have fired, by day, and what it costs. Nothing is written but
    --out: alerts are counted and go nowhere. The exit code is 1 if a rule cannot be planned."""
    from sqlengine.trial.past.period import Period
    from sqlengine.trial.past.tables import Past

    archives = archives_of(tables)
    asked = Asked(
        where,
        Cluster(master, pairs("--spark-conf", spark_conf)),
        share,
        memory,
        data,
        server,
        token_file,
    )
    past = Past(Period(since, until), _files(rules, (*files, *archives.values())), archives)
    with ExitStack() as stack, at_work("planning") as waiting:
        found, others, broken = _planned(stack, asked, rules, against, define, past)
        report = Report(found, since, until, broken=broken)
        if others is not None:
            report.alone = [name for name in found if name not in others]
        if found:
            columns = [c.strip() for c in top.split(",") if c.strip()]
            check_names(found, archives, columns)
            versions = None if others is None else _running(found, others)
            _run(report, versions, past, asked, columns, samples, out, waiting)
    (show_json if output == "json" else show)(report)
    ctx.exit(1 if broken else 0)


def _files(rules: Sequence[str], given: Sequence[Path]) -> FileAccess:
    """Returns the files that may be read: below the rules' folders, the working folder, and those
    that are named."""
    own = [Path(r).resolve() for r in rules if Path(r).exists()]
    folders = [p if p.is_dir() else p.parent for p in own]
    named = [path.absolute() for path in given]
    return FileAccess((*folders, *named, Path.cwd()), command="sql backtest")


def _planned(
    stack: ExitStack,
    asked: Asked,
    rules: Sequence[str],
    against: str | None,
    define: Sequence[str],
    past: Past,
) -> tuple[Rules, Rules | None, int]:
    """Returns the rules, their other versions where these are asked for, and the number of texts
    that cannot be planned, which it shows."""
    unread = Unread()
    texts, above = _texts(asked, rules, define, unread)
    found, broken = _plans(stack, texts, above, past)
    for error in unread.values():
        show_error(error, None)
    broken += len(unread)
    if against is None:
        return found, None, broken
    if against == _LIVE:
        client = asked.client()
        there = jobs_of(client)
        other_texts, other_above = texts_of(client, [n for n in texts if n in there])
    else:
        other_texts, other_above = rule_texts([against], define)
        if not (other_above or _tables_in(other_texts)):  # versions that lie apart from the tables
            other_above = above | _tables_in(texts)
        if len(other_texts) == len(texts) == 1:  # two files of one rule
            other_texts = dict(zip(texts, other_texts.values(), strict=True))
    others, others_broken = _plans(stack, other_texts, other_above, past)
    return found, others, broken + others_broken


def _tables_in(texts: Texts) -> Texts:
    """Returns those of the texts that are a `_tables.sql`."""
    return {n: (file, t) for n, (file, t) in texts.items() if file and Path(file).name == TABLES}


def _running(rules: Rules, others: Rules) -> Rules:
    """Returns the other versions of rules: one that is none, or rests, gives no alerts."""
    from planner.rule_settings import Status

    resting = (Status.DRAFT, Status.RETIRED)
    absent = {name: replace(rule, sinks=()) for name, rule in rules.items()}
    there = {n: replace(o, sinks=()) if o.rule.status in resting else o for n, o in others.items()}
    return absent | there


def _texts(
    asked: Asked, rules: Sequence[str], define: Sequence[str], unread: Unread
) -> tuple[Texts, Texts]:
    """Returns the texts of rules in files and folders, and of jobs of the server."""
    paths = [rule for rule in rules if Path(rule).exists()]
    jobs = [rule for rule in rules if rule not in paths]
    texts, above = rule_texts(paths, define, unread) if paths else ({}, {})
    if jobs:
        own, needed = texts_of(asked.client(), jobs)
        texts, above = texts | own, above | {n: t for n, t in needed.items() if n not in texts}
    return texts, above


def _plans(stack: ExitStack, texts: Texts, above: Texts, past: Past) -> tuple[Rules, int]:
    """Plans rules over the past of their tables. Shows the errors of those that cannot be, and
    returns their number, too."""
    from sqlengine.trial.rules import StandIns

    if not texts:
        return {}, 0
    stand_ins = StandIns(stand_in=past.stand_in)
    found, library = stack.enter_context(collected(texts, above, texts, stand_ins))
    library.activate([f for rule in found.rules.values() for f in rule.functions])
    for name, error in found.broken.items():
        show_error(error, source_of(error, found.texts.get(name)))
    return found.rules, len(found.broken)


def _run(
    report: Report,
    others: Rules | None,
    past: Past,
    asked: Asked,
    columns: Sequence[str],
    samples: int,
    out: str | None,
    waiting: Waiting,
) -> None:
    from sqlengine.broker.errors import Unreachable
    from sqlengine.executors.sinks.rows_set_aside import RowsSetAside
    from sqlengine.session.environment import open_runner
    from sqlengine.session.given import Given
    from sqlengine.trial.past.backtest import Backtest, on_spark

    test = Backtest(report.rules, others or {}, past, columns, samples)
    aside, pace = RowsSetAside(), Pace(asked.share, waiting)
    test.proceed = pace.proceed
    if asked.where == "spark":
        report.on_spark = on_spark(test)
    os.setpriority(os.PRIO_PROCESS, 0, max(_NICE, os.getpriority(os.PRIO_PROCESS, 0)))
    settings = {} if asked.memory is None else {"memory.limit": f"{asked.memory}b"}
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sqlengine-")))
        if out is not None:
            test.listen = stack.enter_context(AlertsFile(Path(out))).take
        broker = stack.enter_context(_broker(asked, test))
        given = Given(broker, test.clock, test.memory)
        runner = stack.enter_context(
            open_runner(
                scratch, ROWS_PER_READ, asked.where, aside, past.files, asked.cluster, given
            )
        )
        try:
            report.outcome = test.run(runner, settings)
        except Unreachable as error:
            error.hint = error.hint or _ELSEWHERE
            raise
    report.set_aside, report.first_error = aside.rows, aside.first


@contextmanager
def _broker(asked: Asked, test: Backtest) -> Iterator[Broker | None]:
    """Opens the broker of a data folder, or that of the server over the network; none where no
    topic is read."""
    if not test.topics:
        yield None
        return
    if asked.data is not None and local_server(Path(asked.data)) is None:
        from sqlengine.cli.folder_topics import open_broker

        with open_broker(asked.data) as broker:
            yield broker
        return
    from sqlengine.broker.remote.client import connect as connect_broker

    client = asked.client()
    remote = connect_broker(client.server, client.token, client.tls)
    try:
        yield remote
    finally:
        remote.close()
