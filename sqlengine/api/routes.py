"""Routes of the application, which are told from each other, and never written."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from flask import Flask
from werkzeug.routing import Rule


def new_app(name: str) -> Flask:
    """Returns an application without routes."""
    app = Flask(name, static_folder=None)
    app.url_rule_class = Route
    return app


class Route(Rule):
    """A route from whose name no address is made: to compile what would make it, for each way of
    asking, takes longer than the rest of an application."""

    def _compile_builder(self, append_unknown: bool = True) -> Callable[..., NoReturn]:
        return _no_address


def _no_address(*_: object) -> NoReturn:
    raise NotImplementedError("addresses are written where they are needed")
