"""The suite, but for the tests that need what Flink SQL has not."""

from sqlalchemy.testing.suite import *  # noqa: F403
