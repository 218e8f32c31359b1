"""The report of `sql backtest`: alerts by rule and day, their cost, and how versions differ."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

import click

from sqlengine.cli.tables import draw_table, number
from sqlengine.system.words import count

if TYPE_CHECKING:
    from sqlengine.trial.past.alerts import Tally
    from sqlengine.trial.past.backtest import Measured, Outcome
    from sqlengine.trial.rules import TrialRule

_HOUR_MS: Final = 3_600_000
_DAY_S: Final = 86_400
# With more days they get a table of their own; of more rules only those with alerts are shown.
_MOST_DAYS: Final = 8
_FEW_RULES: Final = 20
_VALUES: Final = 5


@dataclass
class Report:
    """The rules that were planned, the period (ms), and what came of them. `broken`: texts that
    could not be planned; `set_aside`: rows in error; `on_spark`: how the rules ran there; `alone`:
    rules that have no other version to be compared with."""

    rules: Mapping[str, TrialRule]
    since: int | None
    until: int | None
    broken: int = 0
    outcome: Outcome | None = None
    set_aside: int = 0
    first_error: str = ""
    on_spark: str = ""
    alone: Sequence[str] = ()

    @property
    def measured(self) -> Mapping[str, Measured]:
        return {} if self.outcome is None else self.outcome.rules

    @property
    def days(self) -> list[int]:
        """The days with alerts, since 1970."""
        found = {d for m in self.measured.values() for d in m.tally.days if d is not None}
        return sorted(found)

    @property
    def hours(self) -> float:
        """The length of the period, of which the days with alerts are known where it has no
        beginning. Without an end it ends with the last row, where the time of that is known."""
        if self.since is not None:
            now = int(time.time() * 1000)
            last = None if self.outcome is None else self.outcome.last
            known = last if last is not None and self.since < last < now else now
            until = known if self.until is None else self.until
            return max((until - self.since) / _HOUR_MS, 1e-9)
        return 24.0 * (self.days[-1] - self.days[0] + 1) if self.days else 24.0


def show(report: Report) -> None:
    """Prints the report as tables."""
    rules = sorted(report.measured.items(), key=lambda r: (-r[1].tally.total, r[0]))
    if len(rules) > _FEW_RULES:
        rules = [r for r in rules if r[1].tally.days or _differs(r[1])]
    if rules:
        days = report.days if len(report.days) <= _MOST_DAYS else []
        compared = any(m.difference is not None for _, m in rules)
        heads = ["rule", "alerts", "an hour", *map(_day, days), "CPU ms"]
        rows = [_row(report, name, m, days, compared=compared) for name, m in rules]
        draw_table([*heads, "+", "-"] if compared else heads, rows)
        if len(report.days) > _MOST_DAYS:
            totals = [(_day(day), number(_of_day(report, day))) for day in report.days]
            draw_table(("day", "alerts"), totals)
    for line in (*_top_values(rules), *_samples(rules)):
        click.echo(line)
    for line in _summary(report):
        click.echo(line, err=True)


def _differs(measured: Measured) -> bool:
    found = measured.difference
    return found is not None and (found.more or found.less) > 0


def _row(
    report: Report, name: str, measured: Measured, days: Sequence[int], *, compared: bool
) -> list[str]:
    tally, found = measured.tally, measured.difference
    row = [name, number(tally.total), _rate(tally.total / report.hours)]
    row += [number(tally.days.get(day, 0)) for day in days]
    row.append(f"{measured.seconds * 1000:,.1f}")
    if compared:
        row += ["", ""] if found is None else [number(found.more), number(found.less)]
    return row


def _rate(an_hour: float) -> str:
    return f"{an_hour:,.0f}" if an_hour >= 100 else f"{an_hour:.2g}"


def _of_day(report: Report, day: int) -> int:
    return sum(m.tally.days.get(day, 0) for m in report.measured.values())


def _day(day: int) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(day * _DAY_S))


def _top_values(rules: Sequence[tuple[str, Measured]]) -> Iterator[str]:
    """Lines with the most frequent values of columns."""
    for name, measured in rules:
        for column, values in measured.tally.top.items():
            shown = ", ".join(f"{v} {n:,}" for v, n in values.most_common(_VALUES))
            if shown:
                yield f"{name}: {column}: {shown}"


def _samples(rules: Sequence[tuple[str, Measured]]) -> Iterator[str]:
    """Lines with alerts that one version alone gives."""
    for name, measured in rules:
        if (found := measured.difference) is not None:
            for sign, rows in (("+", found.samples_more), ("-", found.samples_less)):
                yield from (f"{sign} {name}: {_json(row)}" for row in rows)


def _summary(report: Report) -> Iterator[str]:
    """Lines on the whole: what was read, what it cost, and what to know of it."""
    if (done := report.outcome) is None:
        yield "no rule was run"
        return
    total = sum(m.tally.total for m in report.measured.values())
    silent = sum(not m.tally.days for m in report.measured.values())
    yield (
        f"{count(len(report.rules), 'rule')}, {silent:,} without alerts; {count(total, 'alert')} in"
        f" {count(done.rows, 'row')}"
    )
    rate = done.rows / done.cpu_s if done.cpu_s else 0
    each = done.cpu_s / done.rows * 1e6 if done.rows else 0
    yield (
        f"{done.seconds:.1f} s, {done.cpu_s:.1f} CPU s: {each:,.1f} CPU µs a row,"
        f" {rate:,.0f} rows a CPU second"
    )
    if report.on_spark:
        yield f"on Spark: {report.on_spark}"
    if report.alone:
        yield f"nothing to compare with, so that all is +: {', '.join(report.alone)}"
    if done.looked_up:
        yield f"looked up as they are now: {', '.join(done.looked_up)}"
    if report.set_aside:
        rows = count(report.set_aside, "row")
        yield f"{rows} in error set aside; the first: {report.first_error}"


def show_json(report: Report) -> None:
    """Prints the report as lines of JSON: an object a rule, then one for all."""
    for name, measured in report.measured.items():
        tally, found = measured.tally, measured.difference
        body = {"rule": name, "alerts": tally.total, "per_hour": tally.total / report.hours}
        body |= {"days": _days(tally), "top": _tops(tally), "cpu_seconds": measured.seconds}
        if found is not None:
            body["difference"] = asdict(found)
        click.echo(_json(body))
    if (done := report.outcome) is not None:
        click.echo(
            _json(
                {
                    "rules": len(report.rules),
                    "refused": report.broken,
                    "alerts": sum(m.tally.total for m in report.measured.values()),
                    "rows": done.rows,
                    "cpu_seconds": done.cpu_s,
                    "seconds": done.seconds,
                    "looked_up_as_now": list(done.looked_up),
                    "set_aside": report.set_aside,
                    "first_error": report.first_error,
                    **({"without_other_version": list(report.alone)} if report.alone else {}),
                    **({"on_spark": report.on_spark} if report.on_spark else {}),
                }
            )
        )


def _days(tally: Tally) -> dict[str, int]:
    known = sorted((day, number) for day, number in tally.days.items() if day is not None)
    unknown = {"": tally.days[None]} if None in tally.days else {}
    return unknown | {_day(day): number for day, number in known}


def _tops(tally: Tally) -> dict[str, dict[str, int]]:
    return {column: dict(values.most_common(100)) for column, values in tally.top.items()}


def _json(body: Mapping[str, object]) -> str:
    return json.dumps(body, ensure_ascii=False, default=str)
