"""The rules that a command names, planned in this process."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sqlengine.cli.messages import show_error
from sqlengine.cli.texts import Texts

if TYPE_CHECKING:
    from sqlengine.functions.library import Library
    from sqlengine.trial.collecting import Collected
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
        script_library(Path(scratch), rules[0].file) as library,
    ):
        yield collect(rules, given, library, frozenset(names), stand_ins), library


@contextmanager
def planned(texts: Texts, above: Texts) -> Iterator[TrialRule | None]:
    """Plans the only rule among texts, and gives it with its functions loaded; None where that is
    not possible, or it writes nothing. Shows what is wrong."""
    with collected(texts, above, texts) as (found, library):
        for broken, error in found.broken.items():
            show_error(error, found.texts[broken].text)
        rule = next(iter(found.rules.values()), None)
        if rule is not None:
            library.activate(rule.functions)
        yield rule
