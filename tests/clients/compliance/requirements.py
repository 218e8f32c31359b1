"""What the dialect can do of what SQLAlchemy's suite asks for."""

from __future__ import annotations

from typing import Any

from sqlalchemy.testing import exclusions
from sqlalchemy.testing.requirements import SuiteRequirements


class Requirements(SuiteRequirements):
    """Each of these is a property, by which the suite chooses tests."""
