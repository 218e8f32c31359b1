"""Regular expressions that take too long: a record of which are slow, and which are given up."""

from __future__ import annotations

from rules.options import Options
from udf.java.regex import JavaRegex
from udf.text.searches import TimeBudget, with_limit


class SlowPatterns:
    """The slow patterns of one compiled set of rules, by leaf.

    `slow` are evaluated by RE2 wherever it can do so. `given_up` are not evaluated any more where
    it cannot: what depends on them has no answer."""

    def __init__(self, options: Options) -> None:
        self.slow: set[int] = set()
        self.given_up: set[int] = set()
        self._options = options
        self._budgets: dict[int, TimeBudget] = {}

    def search(self, leaf: int, pattern: JavaRegex, text: str, *, spare: bool) -> bool:
        """True if the pattern matches anywhere in the text.

        TimeoutError after the time limit; sooner, if RE2 is there to `spare` it."""
        if spare:
            try:
                return with_limit(pattern, text, self._options.regex_timeout, spare=True)
            except TimeoutError:
                self.slow.add(leaf)
                raise
        if leaf in self.given_up:
            raise TimeoutError
        budget = self._budgets.setdefault(leaf, TimeBudget(self._options.regex_budget))
        try:
            return budget.run(lambda: with_limit(pattern, text, self._options.regex_timeout))
        finally:
            if budget.is_exhausted:
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
