"""The log of a command that runs in the foreground, on standard error."""

from __future__ import annotations

import copy
import logging


class _WithoutTraces(logging.Formatter):
    """Formats warnings and errors by their words alone."""

    def format(self, record: logging.LogRecord) -> str:
        plain = copy.copy(record)
        plain.exc_info = plain.exc_text = plain.stack_info = None
        return super().format(plain)


def show_log(*, verbose: bool) -> None:
    """Shows warnings and errors on standard error; where `verbose` also what else is logged, with
    traces. A program that has its own handlers keeps them."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter() if verbose else _WithoutTraces())
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, handlers=[handler])
