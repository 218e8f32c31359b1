"""The option that changes limits."""

from __future__ import annotations

import click

from parser.limits import changed, present, use

limit_option = click.option(
    "--limit",
    "limits",
    multiple=True,
    metavar="NAME=VALUE",
    help="A limit other than its default, such as record-size=20MB; may be repeated"
    " (docs/limits.md).",
)


def use_limits(given: tuple[str, ...]) -> None:
    """Sets the limits that the command line changes, for this process and those that it starts.
    OptionError for one that is none."""
    if given:
        use(changed(present(), given))
