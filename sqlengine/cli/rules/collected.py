"""The rules that a command names, planned in this process."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from parser.errors import SqlError
from sqlengine.cli.messages import show_error
from sqlengine.cli.texts import Texts

if TYPE_CHECKING:
    from sqlengine.functions.library import Library
    from sqlengine.trial.collecting import Collected, RuleText
    from sqlengine.trial.rules import StandIns, TrialRule


@contextmanager
def collected(
    texts: Texts, above: Texts, names: Collection[str], stand_ins: StandIns | None = None
) -> Iterator[tuple[Collected, Library]]:
    """Plans the rules of these names among texts, over what these and those `above` define, and
    gives them with the library of their functions, whose workers end with the block. `stand_ins`:
    see `collect`."""
    from sqlengine.system.memory import importing

    with importing():
        from sqlengine.session.environment import script_library
        from sqlengine.trial.collecting import RuleText, collect

    rules, given = (
        [RuleText(name, file, text) for name, (file, text) in some.items()]
        for some in (texts, above)
    )
    with (
        tempfile.TemporaryDirectory(prefix="sqlengine-") as scratch,
        script_library(Path(scratch), *(text.file for text in (*rules, *given))) as library,
    ):
        yield collect(rules, given, library, frozenset(names), stand_ins), library


def source_of(error: SqlError, text: RuleText | None) -> str | None:
    """Returns the text in which the position of a rule's error is: that of the rule, or that of a
    file of its cases; None where there is none."""
    file = None if error.position is None else error.position.file
    if text is None or file is None or file == text.file:
        return None if text is None else text.text
    try:
        return Path(file).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return None


@contextmanager
def planned(texts: Texts, above: Texts) -> Iterator[TrialRule | None]:
    """Plans the only rule among texts, and gives it with its functions loaded; None where that is
    not possible, or it writes nothing. Shows what is wrong."""
    with collected(texts, above, texts) as (found, library):
        for broken, error in found.broken.items():
            show_error(error, source_of(error, found.texts.get(broken)))
        rule = next(iter(found.rules.values()), None)
        if rule is not None:
            library.activate(rule.functions)
        yield rule
