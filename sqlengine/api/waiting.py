"""The places of requests that wait, which principals share: who holds many streams of events or
pages open leaves some to others."""

from __future__ import annotations

from typing import Final

from flask import Flask, Response

from parser.limits import present
from sqlengine.access.principals import Principal
from sqlengine.access.shares import Shares
from sqlengine.api.access import as_response
from sqlengine.api.principal import present_principal, present_request
from sqlengine.api.serving.admission import LANE
from sqlengine.api.serving.lanes import BROKER
from sqlengine.api.serving.listener import too_many_wait

_TAKEN: Final = "sqlengine.waits"


def add_shares(app: Flask) -> None:
    """Lets an application answer no more waiting requests of one principal than its share. The
    broker answers those beyond it at once, as where no place is free."""
    shares = Shares(present().waiting_requests)

    @app.before_request
    def take() -> Response | None:
        asked = present_request()
        if asked.environ.get(LANE) != "waiting":
            return None
        if shares.take(present_principal()):
            asked.environ[_TAKEN] = present_principal()
            return None
        if asked.path == BROKER:
            asked.environ[LANE] = "ordinary"
            return None
        return as_response(too_many_wait())

    @app.after_request
    def leave(response: Response) -> Response:
        by = present_request().environ.pop(_TAKEN, None)
        if isinstance(by, Principal):
            response.call_on_close(lambda: shares.leave(by))
        return response
