"""`sql access`: tokens for the access file, and what such a file says."""

from __future__ import annotations

from pathlib import Path

import click

from parser.errors import ServiceError
from sqlengine.access.access_file import AccessRules
from sqlengine.access.identity import AccessFile
from sqlengine.access.policy import Action, allows
from sqlengine.access.principals import Principal, Role
from sqlengine.access.tokens import hash_of, is_long_enough, new_token
from sqlengine.cli.tables import draw_table
from sqlengine.config import token_from


@click.group(short_help="Make tokens, and look at an access file.")
def access() -> None:
    """Make tokens for the file that 'sql serve --access' names, and look at such a file."""


@access.command("hash")
@click.option("--token-file", help="File with a token that there is already.")
def hash_(token_file: str | None) -> None:
    """Make a token, and the hash of it that belongs into the access file.

    The token is shown this once: nobody can get it back from the hash."""
    token = new_token() if token_file is None else token_from(token_file)
    if token is None or not is_long_enough(token):
        raise ServiceError(
            "the token is too short: it could be guessed from its hash",
            hint="take one that 'sql access hash' makes",
        )
    if token_file is None:
        click.echo(f"token: {token}")
    click.echo(f'hash:  "{hash_of(token)}"')


@access.command("check")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def check(file: Path) -> None:
    """Check an access file, and show what its principals may do."""
    rules = AccessFile(file).rules  # with the keys that it names, as a server begins
    known = {name: _known(rules, name) for name in rules.principals}
    rows = [(p.name, *_row(p), ", ".join(known[p.name])) for p in rules.principals.values()]
    draw_table(("principal", "roles", "jobs", "topics", "known by"), rows)


def _known(rules: AccessRules, name: str) -> list[str]:
    """Returns the ways in which a principal is known."""
    tokens = sum(p.name == name for p in rules.tokens.values())
    users = [f"user {u}" for u, p in rules.users.items() if p.name == name]
    certificates = [f"certificate {c}" for c, p in rules.certificates.items() if p.name == name]
    roles = () if rules.jwt is None else rules.jwt.roles.items()
    claims = [f"JWT {value}" for value, principal in roles if principal == name]
    return [*(["token"] * tokens), *users, *certificates, *claims]


def _row(principal: Principal) -> tuple[str, str, str]:
    if principal.is_admin:
        return Role.ADMIN.value, "all", "all"
    (grant,) = principal.grants
    reads = grant.read_topics if allows(principal, Action.READ_TOPIC) else ()
    writes = grant.write_topics if allows(principal, Action.WRITE_TOPIC) else ()
    jobs = grant.jobs if allows(principal, Action.SEE_JOB) else ()
    topics = [f"read {_shown(reads)}"] * bool(reads) + [f"write {_shown(writes)}"] * bool(writes)
    return ", ".join(sorted(grant.roles)), _shown(jobs), "; ".join(topics) or "none"


def _shown(patterns: tuple[str, ...]) -> str:
    return " ".join(patterns) or "none"
