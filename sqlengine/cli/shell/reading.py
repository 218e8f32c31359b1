"""The sources of the shell's entries: a prompt on a terminal, or lines of standard input."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from parser.script import split
from sqlengine.cli.shell.completion import Names, candidates

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import Completer
    from prompt_toolkit.history import History
    from prompt_toolkit.key_binding import KeyBindings

PROMPT = "sql> "
MORE = "...> "
# A statement of its own, for the test whether the text before it is complete.
_NEXT = "\n\x01"


def is_complete(text: str) -> bool:
    """True if an entry ends here: a command, or statements of which the last has its semicolon."""
    stripped = text.strip()
    if not stripped or stripped.startswith("\\") or stripped.lower() in ("quit", "exit", "help"):
        return True
    return len(split(text + _NEXT)) > len(split(text))


def piped_entries(lines: Iterable[str]) -> Iterator[str]:
    """Yields the entries of lines; the last one may lack its semicolon."""
    entry = ""
    for line in lines:
        entry += line
        if is_complete(entry):
            yield entry
            entry = ""
    if entry.strip():
        yield entry


def history_file() -> Path:
    """Returns the file of the user's history, in the folder for state (XDG)."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "sqlengine" / "history"


def _history() -> History:
    """Returns the user's history, which this session alone has where the file cannot be written."""
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    path = history_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(0o600)  # statements may hold passwords
    except OSError:
        return InMemoryHistory()
    return FileHistory(path)


def typed_entries(names: Callable[[], Names], commands: Sequence[str]) -> Iterator[str]:
    """Yields what is typed at a prompt with history and completion, until Ctrl-D. Ctrl-C drops what
    is typed."""
    session = _prompt(names, commands)
    while True:
        try:
            yield session.prompt()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return


def _prompt(names: Callable[[], Names], commands: Sequence[str]) -> PromptSession[str]:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.lexers import PygmentsLexer
    from pygments.lexers.sql import SqlLexer

    return PromptSession(
        PROMPT,
        multiline=True,
        prompt_continuation=MORE,
        completer=_completer(names, commands),
        complete_while_typing=False,
        complete_in_thread=True,
        history=_history(),
        key_bindings=_keys(),
        lexer=PygmentsLexer(SqlLexer),
    )


def _completer(names: Callable[[], Names], commands: Sequence[str]) -> Completer:
    from prompt_toolkit.completion import CompleteEvent, Completer, Completion
    from prompt_toolkit.document import Document

    class Words(Completer):
        def get_completions(
            self, document: Document, complete_event: CompleteEvent
        ) -> Iterator[Completion]:
            for found in candidates(document.text_before_cursor, names(), commands):
                yield Completion(found.text, -found.length, display_meta=found.kind)

    return Words()


def _keys() -> KeyBindings:
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

    keys = KeyBindings()

    @keys.add("enter")
    def enter(event: KeyPressEvent) -> None:
        """Ends the entry where it is complete, and begins a line elsewhere."""
        buffer = event.current_buffer
        if buffer.complete_state and buffer.complete_state.current_completion:
            buffer.complete_state = None
        elif is_complete(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    return keys
