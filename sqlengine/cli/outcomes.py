"""Draws what came of changes of jobs: each of a few, of many how many came to what. What is said of
several jobs is drawn once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import click

from sqlengine.cli.refused_files import draw_refused_files
from sqlengine.cli.texts import Texts
from sqlengine.client import Json, Refused
from sqlengine.jobs.error_texts import rendered
from sqlengine.system.words import count, counted, grouped, listed

# So many outcomes are shown one by one.
FEW: Final = 20


def items_of(body: Json, key: str) -> list[Json]:
    """Returns a list of the server's answer; none where the server, while it starts, has none."""
    items = body.get(key, [])
    assert isinstance(items, list)
    return items


def draw_outcomes(body: Json, texts: Texts) -> None:
    """Draws each of a few outcomes; of many those with an error, and how many came to what."""
    outcomes = items_of(body, "jobs")
    _tell_topics_once(outcomes)
    alike = grouped((_error_key(o), str(o["name"])) for o in outcomes if o.get("error"))
    firsts = {names[0]: names[1:] for names in alike.values()}
    for outcome in outcomes:
        name = str(outcome["name"])
        if name in firsts or (len(outcomes) <= FEW and not outcome.get("error")):
            draw_outcome({**outcome, "warnings": []}, *texts.get(name, ()))
            _draw_others(outcome, firsts.get(name, []))
    if len(outcomes) > FEW:
        click.echo(f"{count(len(outcomes), 'job')}: {tally(outcomes, 'status')}")
    _draw_warnings(outcomes)


def _tell_topics_once(outcomes: Sequence[Json]) -> None:
    """Leaves a topic that several jobs name with the first of them."""
    known: set[str] = set()
    for outcome in outcomes:
        topics = {str(t["text"]): t for t in items_of(outcome, "topics")}
        outcome["topics"] = [t for text, t in topics.items() if text not in known]
        known |= topics.keys()


def _error_key(outcome: Json) -> tuple[object, ...]:
    """Returns what is said of a job, but for the place in its text."""
    error = outcome["error"]
    assert isinstance(error, dict)
    refused = Refused(error)
    return outcome["status"], refused.title, refused.reason, refused.hint


def _draw_others(outcome: Json, names: Sequence[str]) -> None:
    if names:
        told = f"{count(len(names), 'more job')} {outcome['status']} for the same reason"
        click.echo(f"{told}: {listed(names)}", err=True)


def _draw_warnings(outcomes: Sequence[Json]) -> None:
    """Draws each warning once, with the jobs that it is about."""
    said = grouped((w, str(o["name"])) for o in outcomes for w in _warnings_of(o))
    for warning, names in said.items():
        click.echo(f"warning: {counted(names)}: {warning}", err=True)


def draw_files(body: Json) -> None:
    """Draws the files of the watched folder that were not taken, or do not count: several of which
    the same is said together."""
    draw_refused_files(items_of(body, "refused_files"))
    overridden = ((str(f["message"]), str(f["file"])) for f in items_of(body, "overridden_files"))
    for message, files in grouped(overridden).items():
        click.echo(f"{_called(files)}: {message}", err=True)


def _called(files: Sequence[str]) -> str:
    return files[0] if len(files) == 1 else counted(files, "file")


def _warnings_of(outcome: Json) -> list[str]:
    warnings = outcome.get("warnings")
    return [str(w) for w in warnings] if isinstance(warnings, list) else []


def tally(items: Sequence[Json], key: str, between: str = ", ") -> str:
    """Returns how many items have which value: 1,410 running, 4 stopped."""
    return between.join(
        f"{n:,} {word}" for word, n in Counter(str(i[key]) for i in items).most_common()
    )


def draw_outcome(body: Json, file: str | None = None, text: str | None = None) -> None:
    click.echo(
        f"{body['name']}: {body['status']}"
        + (f", version {body['version']}" if body["version"] else "")
    )
    error = body.get("error")
    if isinstance(error, dict):
        click.echo(rendered(Refused(error).in_file(file), text), err=True)
    if body.get("savepoint"):
        click.echo(f"  savepoint {body['savepoint']}")
    for topic in items_of(body, "topics"):
        similar = f"; did you mean '{topic['similar']}'?" if topic.get("similar") else ""
        done = "created" if topic["created"] else "would create"
        click.echo(f"  {done} {topic['text']}{similar}")
    for warning in _warnings_of(body):
        click.echo(f"  warning: {warning}", err=True)
    for item in items_of(body, "state"):
        reason = f" ({item['reason']})" if item.get("reason") else ""
        click.echo(f"  state of {item['operator']}: {item['outcome']}{reason}")
    for sink in items_of(body, "sinks"):
        writes = f"{sink['guarantee']}, changelogMode={sink['changelog_mode']}"
        click.echo(f"  writes to {sink['table']} ({sink['connector']}): {writes}")
    if "dependents" in body:
        _draw_dependents(items_of(body, "dependents"))


def _draw_dependents(outcomes: Sequence[Json]) -> None:
    """The jobs that use what a job defines differently now: each of a few, of many those whose
    state is not kept, and how many fare alike."""
    fates: list[Json] = []
    for outcome in outcomes:
        states = Counter(str(i["outcome"]) for i in items_of(outcome, "state"))
        fate = ", ".join([str(outcome["status"]), *(f"state {word}" for word in states)])
        fates.append({"fate": fate})
        if len(outcomes) <= FEW or not states.keys() <= {"kept"}:
            click.echo(f"  {outcome['name']}: {fate}")
    if len(outcomes) > FEW:
        click.echo(f"  {count(len(outcomes), 'job')} that use it: {tally(fates, 'fate', '; ')}")
