"""`sql lint`: doubts about rules that can be planned."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import click

from sqlengine.cli.messages import error_json, output_option
from sqlengine.cli.options import define_option
from sqlengine.cli.rules.collected import collected, source_of
from sqlengine.cli.texts import Texts, Unread, rule_texts
from sqlengine.jobs.error_texts import rendered
from sqlengine.system.words import count

if TYPE_CHECKING:
    from sqlengine.trial.collecting import Collected
    from sqlengine.trial.linting import Doubt


@click.command(short_help="Say what is doubtful about rules, without a server.")
@click.argument("paths", nargs=-1, required=True, metavar="FOLDER|FILE...")
@define_option
@output_option(["table", "json"], "'json' is an object a doubt, for programs.")
@click.pass_context
def lint(ctx: click.Context, paths: Sequence[str], define: Sequence[str], output: str) -> None:
    """Say what is doubtful about rules: state without a bound, joins of each row with each, long
    lists, patterns that begin with '.*', rules that others contain, rules that fire in none of
    their cases.

    The exit code is 1 if anything is doubtful, or a rule cannot be planned."""
    unread = Unread()
    found, doubts = _doubts(*rule_texts(paths, define, unread))
    found = replace(found, broken={**found.broken, **unread})
    (_show_json if output == "json" else _show)(found, doubts)
    ctx.exit(1 if doubts or found.broken else 0)


def _doubts(texts: Texts, above: Texts) -> tuple[Collected, Sequence[Doubt]]:
    with collected(texts, above, texts) as (found, _):
        from sqlengine.trial.linting import doubts

    return found, doubts(found.rules, found.files)


def _show(found: Collected, doubts: Sequence[Doubt]) -> None:
    for rule, error in found.broken.items():
        click.echo(rendered(error, source_of(error, found.texts.get(rule))), err=True)
    for doubt in doubts:
        file = found.texts[doubt.rule].file or doubt.rule
        place = f":{doubt.position}" if doubt.position is not None else ""
        click.echo(f"{file}{place}: {doubt.message} ({doubt.code})\n  hint: {doubt.hint}")
    doubtful = len({doubt.rule for doubt in doubts})
    broken = f", {count(len(found.broken), 'text')} in error" if found.broken else ""
    click.echo(f"{count(len(found.rules), 'rule')}, {doubtful:,} doubtful{broken}", err=True)


def _show_json(found: Collected, doubts: Sequence[Doubt]) -> None:
    for rule, error in found.broken.items():
        _echo({"rule": rule, "code": "refused", "error": error_json(error)})
    for doubt in doubts:
        _echo({"file": found.texts[doubt.rule].file, **asdict(doubt)})


def _echo(body: Mapping[str, object]) -> None:
    click.echo(json.dumps(body, ensure_ascii=False))
