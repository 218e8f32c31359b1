"""`sql test`: runs the cases beside rules, without a server."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from parser.errors import ServiceError, SqlError
from sqlengine.cli.messages import error_json, output_option
from sqlengine.cli.options import define_option
from sqlengine.cli.texts import Texts, job_texts, named_below_tables, tables_above
from sqlengine.cli.waiting import at_work
from sqlengine.jobs.error_texts import rendered
from sqlengine.system.words import count

if TYPE_CHECKING:
    from sqlengine.trial.bench import Bench
    from sqlengine.trial.collecting import Collected, RuleText
    from sqlengine.trial.testing import Outcome


@dataclass(frozen=True)
class Report:
    """The outcomes of cases by rule, and what could not be planned or read."""

    outcomes: Mapping[str, Sequence[Outcome]]
    broken: Mapping[str, SqlError]
    texts: Mapping[str, RuleText]

    @property
    def passed(self) -> bool:
        return not self.broken and all(o.passed for found in self.outcomes.values() for o in found)


@click.command(short_help="Run the cases beside rules, without a server.")
@click.argument("paths", nargs=-1, required=True, metavar="FOLDER|FILE...")
@click.option("--update", is_flag=True, help="Write what came into the cases, as expected.")
@click.option("--junit", type=click.Path(dir_okay=False), help="Write a JUnit report here.")
@click.option("-v", "--verbose", is_flag=True, help="Name cases that pass, too.")
@define_option
@output_option(["table", "json"], "'json' is an object a case, for programs.")
@click.pass_context
def test(
    ctx: click.Context,
    paths: Sequence[str],
    update: bool,
    junit: str | None,
    verbose: bool,
    define: Sequence[str],
    output: str,
) -> None:
    """Run the cases of rules: rule.test.yaml beside rule.sql has events, and the alerts that they
    should give.

    Tables are those of the texts, held in memory: nothing is read or written elsewhere. The exit
    code is 1 if a case fails, or a rule cannot be planned."""
    texts = named_below_tables(job_texts(paths, None, define))
    report = _run(texts, tables_above(paths, define), update=update)
    if junit is not None:
        _write_junit(Path(junit), report)
    (_show_json if output == "json" else _show)(report, verbose)
    ctx.exit(0 if report.passed else 1)


def _run(texts: Texts, above: Texts, *, update: bool) -> Report:
    from sqlengine.system.memory import importing

    with importing():
        from sqlengine.session.environment import script_library
        from sqlengine.trial.bench import open_bench
        from sqlengine.trial.collecting import RuleText, collect

    first = next(iter(texts.values()))[0]
    with (
        tempfile.TemporaryDirectory(prefix="sqlengine-") as scratch,
        script_library(Path(scratch), first) as library,
        open_bench() as bench,
        at_work("planning") as waiting,
    ):
        found = collect(
            [RuleText(name, file, text) for name, (file, text) in texts.items()],
            [RuleText(name, file, text) for name, (file, text) in above.items()],
            library,
        )
        outcomes: dict[str, Sequence[Outcome]] = {}
        for number, name in enumerate(found.rules, 1):
            waiting.what = f"rule {number:,} of {len(found.rules):,}"
            library.activate(found.rules[name].functions)
            outcomes[name] = list(_outcomes(bench, found, name, update=update))
    return Report(outcomes, found.broken, found.texts)


def _outcomes(bench: Bench, found: Collected, name: str, *, update: bool) -> Iterator[Outcome]:
    from sqlengine.trial.cases import read_cases
    from sqlengine.trial.recording import record
    from sqlengine.trial.testing import run_cases

    rule = found.rules[name]
    for file in found.files[name]:
        outcomes = list(run_cases(bench, rule, file))
        if update and record(file, outcomes):
            click.echo(f"{file.path}: written", err=True)
            outcomes = list(run_cases(bench, rule, read_cases(file.path)))
        yield from outcomes


def _show(report: Report, verbose: bool) -> None:
    for rule, error in report.broken.items():
        text = report.texts[rule].text if rule in report.texts else None
        click.echo(rendered(error, text), err=True)
    for rule, found in report.outcomes.items():
        for outcome in found:
            if not outcome.passed:
                click.echo(f"{rule}: {outcome.case.name}: failed\n{_described(outcome)}")
            elif verbose:
                click.echo(f"{rule}: {outcome.case.name}: passed ({outcome.seconds * 1000:.0f} ms)")
    click.echo(_summary(report), err=True)


def _described(outcome: Outcome) -> str:
    """What did not come, and what came instead."""
    if outcome.error is not None:
        return "\n".join(f"  {line}" for line in rendered(outcome.error, None).splitlines())
    lines = []
    for found in outcome.differences:
        expected = count(found.expected, "row")
        lines.append(f"  {found.table}: {expected} expected, {found.came:,} came")
        lines += [f"    - {_row(row)}   did not come" for row in found.missing]
        lines += [f"    + {_row(row)}   was not expected" for row in found.unexpected]
    return "\n".join(lines)


def _row(row: Mapping[str, object]) -> str:
    return json.dumps(row, ensure_ascii=False, default=str)


def _summary(report: Report) -> str:
    outcomes = [o for found in report.outcomes.values() for o in found]
    failed = sum(not o.passed for o in outcomes)
    untested = sum(not found for found in report.outcomes.values())
    parts = [f"{count(len(report.outcomes), 'rule')}, {count(len(outcomes), 'case')}"]
    parts += [f"{failed:,} failed" if failed else "all passed"] if outcomes else []
    parts += [f"{count(untested, 'rule')} without cases"] if untested else []
    parts += [f"{count(len(report.broken), 'text')} in error"] if report.broken else []
    return ", ".join(parts)


def _show_json(report: Report, verbose: bool) -> None:
    for rule, error in report.broken.items():
        _echo({"rule": rule, "status": "refused", "error": error_json(error)})
    for rule, found in report.outcomes.items():
        for outcome in found:
            _echo(
                {
                    "rule": rule,
                    "case": outcome.case.name,
                    "status": "passed" if outcome.passed else "failed",
                    "seconds": round(outcome.seconds, 4),
                    "alerts": outcome.came,
                    "differences": [vars(d) for d in outcome.differences],
                    "error": None if outcome.error is None else error_json(outcome.error),
                }
            )


def _echo(body: Mapping[str, object]) -> None:
    click.echo(json.dumps(body, ensure_ascii=False, default=str))


def _write_junit(path: Path, report: Report) -> None:
    from sqlengine.trial.junit import junit_xml

    described = {
        rule: {o.case.name: _described(o) for o in found if not o.passed}
        for rule, found in report.outcomes.items()
    }
    try:
        path.write_text(junit_xml(report.outcomes, report.broken, described), encoding="utf-8")
    except OSError as error:
        raise ServiceError(f"'{path}' cannot be written", detail=error.strerror) from None
