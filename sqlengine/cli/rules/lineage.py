"""`sql why --alert`: the events behind an alert."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Final, TypeAlias

import click

from parser.errors import JobError, SqlError
from sqlengine.cli.rules.collected import planned
from sqlengine.cli.rules.records import (
    broker_of,
    check_record,
    job_texts_at,
    jobs_named_in,
    jobs_over,
    place_of,
    texts_of_file,
)
from sqlengine.cli.texts import Texts, is_file
from sqlengine.cli.waiting import at_work
from sqlengine.client import Client

if TYPE_CHECKING:
    from sqlengine.broker.remote.client import RemoteBroker
    from sqlengine.trial.epochs_read import Origin
    from sqlengine.trial.lineage import Limits, Lineage
    from sqlengine.trial.recorded import Place

# The text of a rule, those of what it needs, and since when it has been there (ms).
_Texts: TypeAlias = tuple[Texts, Texts, int | None]

# So many jobs are asked whether an alert is theirs, where none is named in it.
_MOST_JOBS: Final = 50


def explain_alert(
    client: Client,
    rule: str | None,
    alert: str,
    define: Sequence[str],
    limits: tuple[int, float],
) -> Lineage:
    """Returns the events behind an alert. `rule`: a file or a job, None for the job that has
    written it; `limits`: of records that are read, and of seconds. JobError where there are
    none to be found."""
    from sqlengine.trial.epochs_read import origin_of
    from sqlengine.trial.lineage import Limits

    place = place_of(alert)
    value = check_record(client, place)
    with broker_of(client) as broker, at_work(f"looking for the events behind {place}") as line:

        def tell(text: str) -> None:
            line.what = f"{place}: {text}"

        origin = origin_of(broker, place)
        search = Limits(*limits, tell)
        for group in _rules(client, rule, value, place.topic, origin, define):
            if (found := _found_in(broker, group, place, origin, search)) is not None:
                return found
    raise JobError(
        f"record {place} is no alert of {'a job' if rule is None else f'rule {rule!r}'}",
        detail="no INSERT of it can have written this row to this topic",
        hint="say with --rule which job, or which file, has written it",
    )


def _found_in(
    broker: RemoteBroker, group: Iterator[_Texts], place: Place, origin: Origin, limits: Limits
) -> Lineage | None:
    """The events behind an alert by the first rule that gives it; None where none can have written
    it. Raises the last error where one could, and does not."""
    failed: SqlError | None = None
    for texts, above, since in group:
        try:
            found = _lineage(broker, texts, above, place, origin, since, limits)
        except SqlError as error:
            failed = error
        else:
            if found is not None:
                return found
    if failed is not None:
        raise failed
    return None


def _rules(
    client: Client,
    rule: str | None,
    value: str,
    topic: str,
    origin: Origin,
    define: Sequence[str],
) -> Iterator[Iterator[_Texts]]:
    """Yields the rules that may have written a record, each with the texts of what it needs, and
    since when it has been there (ms): those that it names first."""
    if rule is not None and is_file(rule):
        yield iter([(*texts_of_file(rule, define), None)])
        return
    named = jobs_named_in(client, _texts_in(value)) if rule is None else [rule]
    yield (job_texts_at(client, name, origin.time) for name in named)
    if rule is None:
        others = [name for name in jobs_over(client, topic) if name not in named]
        yield (job_texts_at(client, name, origin.time) for name in others[:_MOST_JOBS])


def _texts_in(value: str) -> set[str]:
    """The texts among the values of a record of JSON."""
    try:
        row = json.loads(value)
    except (ValueError, RecursionError):
        return set()
    return {v for v in row.values() if isinstance(v, str)} if isinstance(row, dict) else set()


def _lineage(
    broker: RemoteBroker,
    texts: Texts,
    above: Texts,
    place: Place,
    origin: Origin,
    since: int | None,
    limits: Limits,
) -> Lineage | None:
    """The events behind an alert; None where no INSERT of the rule can have written it."""
    with planned(texts, above) as rule:
        from sqlengine.trial.bench import open_bench
        from sqlengine.trial.lineage import Search
        from sqlengine.trial.reproducing import reproductions

        if rule is None:
            return None
        failed: JobError | None = None
        with open_bench() as bench:
            for made in reproductions(bench, rule, place, origin.time, broker):
                try:
                    return Search(broker, made, origin, since, limits).run()
                except JobError as error:
                    failed = error
    if failed is not None:
        raise failed
    return None


def show_lineage(alert: str, found: Lineage, output: str) -> None:
    """Shows the events behind an alert."""
    if output == "json":
        events = [
            {**asdict(e.place), "table": e.table, "time": e.time, "row": e.row}
            for e in found.events
        ]
        body = {"alert_at": alert, **asdict(found), "events": events}
        click.echo(json.dumps(body, ensure_ascii=False, default=str))
        return
    from sqlengine.trial.events import text_of

    click.echo(f"{alert} {json.dumps(found.alert, ensure_ascii=False)}")
    click.echo(f"rule {found.rule}, {len(found.events)} of {found.read:,} records that were read:")
    for event in found.events:
        row = json.dumps(event.row, ensure_ascii=False)
        click.echo(f"  {event.place}   {text_of(event.time)}   {row}")
    for note in found.notes:
        click.echo(note, err=True)
