"""`sql test`: runs the cases beside rules, without a server."""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from parser.errors import ServiceError, SqlError
from sqlengine.cli.messages import error_json, output_option
from sqlengine.cli.options import define_option
from sqlengine.cli.rules.case_files import cases_of_no_rule, rule_of_cases
from sqlengine.cli.rules.collected import collected, source_of
from sqlengine.cli.texts import Texts, Unread, rule_texts
from sqlengine.cli.waiting import at_work
from sqlengine.jobs.error_texts import rendered
from sqlengine.system.words import count

if TYPE_CHECKING:
    from sqlengine.trial.bench import Bench
    from sqlengine.trial.collecting import Collected, RuleText
    from sqlengine.trial.conditions import Condition
    from sqlengine.trial.coverage import Seen
    from sqlengine.trial.testing import Outcome


# Fewer rules are not worth the start of a process (0.7 s of CPU time).
_SHARE: Final = 100


@dataclass(frozen=True)
class Asked:
    """The options of the command that the work depends on."""

    update: bool
    coverage: bool
    mutate: bool


@dataclass
class Report:
    """The outcomes of cases by rule, and what could not be planned or read. `seen`: what the cases
    have seen of conditions; `idle`: those that no case needs, of so many (`mutants`); `read`: the
    files of cases."""

    outcomes: dict[str, Sequence[Outcome]] = field(default_factory=dict)
    broken: dict[str, SqlError] = field(default_factory=dict)
    texts: dict[str, RuleText] = field(default_factory=dict)
    seen: dict[str, Sequence[Seen]] = field(default_factory=dict)
    idle: dict[str, Sequence[Condition]] = field(default_factory=dict)
    mutants: int = 0
    read: set[Path] = field(default_factory=set)

    def add(self, other: Report) -> None:
        """Adds what came of other rules."""
        self.outcomes |= other.outcomes
        self.broken |= other.broken
        self.texts |= other.texts
        self.seen |= other.seen
        self.idle |= other.idle
        self.mutants += other.mutants
        self.read |= other.read

    def sorted(self) -> Report:
        """Returns the same in the order of the rules' names."""
        return Report(
            dict(sorted(self.outcomes.items())),
            dict(sorted(self.broken.items())),
            self.texts,
            dict(sorted(self.seen.items())),
            dict(sorted(self.idle.items())),
            self.mutants,
            self.read,
        )

    @property
    def passed(self) -> bool:
        return not self.broken and all(o.passed for found in self.outcomes.values() for o in found)


@click.command(short_help="Run the cases beside rules, without a server.")
@click.argument("paths", nargs=-1, required=True, metavar="FOLDER|FILE...")
@click.option("--update", is_flag=True, help="Write what came into the cases, as expected.")
@click.option("--junit", type=click.Path(dir_okay=False), help="Write a JUnit report here.")
@click.option("--coverage", is_flag=True, help="Name conditions that were never TRUE, or always.")
@click.option("--mutate", is_flag=True, help="Name conditions that no case needs.")
@click.option("-v", "--verbose", is_flag=True, help="Name cases that pass, too.")
@define_option
@output_option(["table", "json"], "'json' is an object a case, for programs.")
@click.pass_context
def test(
    ctx: click.Context,
    paths: Sequence[str],
    update: bool,
    junit: str | None,
    coverage: bool,
    mutate: bool,
    verbose: bool,
    define: Sequence[str],
    output: str,
) -> None:
    """Run the cases of rules: rule.test.yaml beside rule.sql has events, and the alerts that they
    should give.

    Tables are those of the texts, held in memory: nothing is read or written elsewhere. The exit
    code is 1 if a case fails, or a rule cannot be planned."""
    unread = Unread()
    texts, above = rule_texts([rule_of_cases(path) for path in paths], define, unread)
    asked = Asked(update, coverage, mutate)
    report = _run(texts, above, asked)
    report.broken |= unread
    report.broken |= cases_of_no_rule(paths, report.read)
    if junit is not None:
        _write_junit(Path(junit), report)
    (_show_json if output == "json" else _show)(report, verbose)
    ctx.exit(0 if report.passed else 1)


def _run(texts: Texts, above: Texts, asked: Asked) -> Report:
    """Runs the cases of all rules, in several processes where there are many."""
    names = sorted(texts)
    processes = min(len(names) // _SHARE, os.cpu_count() or 1)
    if processes < 2:
        return _run_share(names, texts, above, asked)
    shares = [names[i::processes] for i in range(processes)]
    context = multiprocessing.get_context("spawn")
    report = Report()
    with (
        at_work(f"{count(len(names), 'rule')} in {processes} processes"),
        ProcessPoolExecutor(processes, mp_context=context) as pool,
    ):
        for part in pool.map(_run_share, shares, repeat(texts), repeat(above), repeat(asked)):
            report.add(part)
    return report.sorted()


def _run_share(names: Sequence[str], texts: Texts, above: Texts, asked: Asked) -> Report:
    """Runs the cases of some of the rules."""
    with at_work("planning") as waiting, collected(texts, above, names) as (found, library):
        from sqlengine.trial.bench import open_bench

        report = Report(broken=dict(found.broken), texts=dict(found.texts))
        report.read = {file.path.absolute() for files in found.files.values() for file in files}
        with open_bench() as bench:
            for number, name in enumerate(found.rules, 1):
                waiting.what = f"rule {number:,} of {len(found.rules):,}"
                library.activate(found.rules[name].functions)
                report.outcomes[name] = list(_outcomes(bench, found, name, update=asked.update))
                _look_closer(bench, found, name, asked, report)
    return report


def _look_closer(bench: Bench, found: Collected, name: str, asked: Asked, report: Report) -> None:
    """Looks at the conditions of a rule, if that is asked for, and the rule has cases."""
    from sqlengine.trial.conditions import conditions_of
    from sqlengine.trial.coverage import idle_conditions, seen

    rule, files = found.rules[name], found.files[name]
    if asked.coverage and files:
        report.seen[name] = list(seen(bench, rule, files))
    if asked.mutate and files and all(o.passed for o in report.outcomes[name]):
        report.idle[name] = list(idle_conditions(bench, rule, files))
        report.mutants += len(conditions_of(rule.sinks))


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
        click.echo(rendered(error, source_of(error, report.texts.get(rule))), err=True)
    for rule, found in report.outcomes.items():
        for outcome in found:
            if not outcome.passed:
                click.echo(f"{rule}: {outcome.case.name}: failed\n{_described(outcome)}")
            elif verbose:
                click.echo(f"{rule}: {outcome.case.name}: passed ({outcome.seconds * 1000:.0f} ms)")
    for line in (*_coverage(report), *_mutation(report)):
        click.echo(line)
    click.echo(_summary(report), err=True)


def _coverage(report: Report) -> Iterator[str]:
    """Lines about conditions that the cases have not seen both ways."""
    found = [(rule, s) for rule, conditions in report.seen.items() for s in conditions]
    for rule, one in found:
        if not one.true:
            yield f"{rule}: never true: {one.condition}"
        elif not one.false:
            yield f"{rule}: always true: {one.condition}"
    if found:
        both = sum(s.true > 0 and s.false > 0 for _, s in found)
        yield f"coverage: {both:,} of {count(len(found), 'condition')} were true and not true"


def _mutation(report: Report) -> Iterator[str]:
    """Lines about conditions that no case needs."""
    for rule, conditions in report.idle.items():
        yield from (f"{rule}: no case needs: {condition}" for condition in conditions)
    if report.idle:
        needed = report.mutants - sum(map(len, report.idle.values()))
        yield f"mutation: {needed:,} of {count(report.mutants, 'condition')} are needed by a case"


def _described(outcome: Outcome) -> str:
    """Returns the rows that did not come, and those that came instead."""
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

    for rule, seen in report.seen.items():
        for one in seen:
            shown = {"condition": str(one.condition), "true": one.true, "false": one.false}
            _echo({"rule": rule, **shown})
    for rule, idle in report.idle.items():
        for condition in idle:
            _echo({"rule": rule, "condition": str(condition), "needed": False})


def _echo(body: Mapping[str, object]) -> None:
    click.echo(json.dumps(body, ensure_ascii=False, default=str))


def _write_junit(path: Path, report: Report) -> None:
    from sqlengine.trial.junit import junit_xml

    described = {
        rule: ["" if o.passed else _described(o) for o in found]
        for rule, found in report.outcomes.items()
    }
    try:
        path.write_text(junit_xml(report.outcomes, report.broken, described), encoding="utf-8")
    except OSError as error:
        raise ServiceError(f"'{path}' cannot be written", detail=error.strerror) from None
