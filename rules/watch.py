"""Regular expressions that take too long: which were given up, since each of their searches makes
everybody wait."""

from __future__ import annotations

from rules.options import Options
from udf.java.regex import JavaRegex
from udf.text.searches import Patience, with_limit


class Watch:
    """Belongs to a compiled set of rules, like the leaves by whose number it knows the patterns.
    `slow` are those for which RE2 is to be asked wherever it can be. `given_up` are those that are
    not asked any more where it cannot be: what depends on them has no answer."""

    def __init__(self, options: Options) -> None:
        self.slow: set[int] = set()
        self.given_up: set[int] = set()
        self._options = options
        self._patience: dict[int, Patience] = {}

    def search(self, leaf: int, pattern: JavaRegex, text: str, *, spare: bool) -> bool:
        """Whether the pattern is found. TimeoutError where that takes too long; sooner, if RE2 is
        there to `spare` it."""
        if spare:
            try:
                return with_limit(pattern, text, self._options.regex_timeout, spare=True)
            except TimeoutError:
                self.slow.add(leaf)
                raise
        if leaf in self.given_up:
            raise TimeoutError
        patience = self._patience.setdefault(leaf, Patience(self._options.regex_budget))
        try:
            return patience.watch(lambda: with_limit(pattern, text, self._options.regex_timeout))
        finally:
            if patience.is_over:
                self.given_up.add(leaf)

    def reason(self, leaf: int, pattern: str) -> str:
        """Why there is no answer that depends on `leaf`."""
        if leaf in self.given_up:
            return (
                f"the regular expression '{pattern}' was given up: it took too long on one value"
                " after the other"
            )
        return (
            f"the regular expression '{pattern}' took longer than {self._options.regex_timeout:g} s"
        )
