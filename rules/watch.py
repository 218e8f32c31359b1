"""Regular expressions that take too long: which were given up, since each of their searches makes everybody wait."""

from __future__ import annotations

from rules.options import Options
from udf.java_regex import JavaRegex
from udf.searches import SHORT, Patience


class Watch:
    """Belongs to a compiled set of rules, like the leaves by whose number it knows the patterns. `given_up` are the leaves
    whose patterns are not asked any more: what depends on them has no answer."""

    def __init__(self, options: Options) -> None:
        self.given_up: set[int] = set()
        self._options = options
        self._patience: dict[int, Patience] = {}

    def search(self, leaf: int, pattern: JavaRegex, text: str) -> bool:
        """Whether the pattern is found. TimeoutError where that takes too long."""
        if pattern.tame and len(text) <= SHORT:
            return pattern.exact.search(text) is not None
        if leaf in self.given_up:
            raise TimeoutError
        patience = self._patience.setdefault(leaf, Patience(self._options.regex_budget))
        try:
            limit = self._options.regex_timeout
            return patience.watch(lambda: pattern.exact.search(text, timeout=limit) is not None)
        finally:
            if patience.is_over:
                self.given_up.add(leaf)

    def reason(self, leaf: int, pattern: str) -> str:
        """Why there is no answer that depends on `leaf`."""
        if leaf in self.given_up:
            return f"the regular expression '{pattern}' was given up: it took too long on one value after the other"
        return f"the regular expression '{pattern}' took longer than {self._options.regex_timeout:g} s"
