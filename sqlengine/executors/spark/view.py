"""Spark as people see it: where it runs, and how it began."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class SparkView:
    """A session of Spark that has started.

    `ui`: the address of its UI, None where that is off. It took `seconds` to start, and is the
    `starts`th that this process has begun: a Java process that ends takes its session along."""

    master: str
    version: str
    ui: str | None
    seconds: float
    starts: int

    def __str__(self) -> str:
        """The view for the log."""
        ui = "" if self.ui is None else f", its UI is {self.ui}"
        return f"Spark {self.version} runs on {self.master}{ui}"


def view_of(session: SparkSession, seconds: float, starts: int) -> SparkView:
    """Returns the view of a session."""
    context = session.sparkContext
    return SparkView(context.master, context.version, context.uiWebUrl, seconds, starts)
