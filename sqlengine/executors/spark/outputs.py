"""The sinks of a script on Spark, in the driver: those of the embedded executor. A batch of Spark
is an epoch of theirs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from planner.graph.physical import PhysicalPlan
from sqlengine.batch import Batch
from sqlengine.connectors.base import Environment, Sink, Unanswered
from sqlengine.connectors.query_result import ResultSink
from sqlengine.executors.nondeterministic_calls import NondeterministicCallLog
from sqlengine.executors.outputs import Outputs
from sqlengine.executors.sinks.row_errors import RowErrors
from sqlengine.operators.base import ERROR_PORT, FATAL_ERROR_PORT

_ERRORS = (ERROR_PORT, FATAL_ERROR_PORT)


class BatchOutputs:
    """Writes the results of the batches of one plan.

    `names`: the sink of each output port; `emit` takes the rows of a query. With `fails` a row in
    error ends the statement before anything of its batch is visible, without it `set_aside` takes
    it. SqlError where a table cannot be opened."""

    def __init__(
        self,
        plan: PhysicalPlan,
        names: Mapping[int, str],
        environment: Environment,
        emit: Callable[[Batch], None],
        *,
        fails: bool,
        set_aside: Sink | None,
        first_epoch: int,
    ) -> None:
        self._plan = plan
        self._names = names
        self._first_epoch = first_epoch
        self._outputs = Outputs(
            environment,
            RowErrors(set_aside, lambda owner: fails),
            NondeterministicCallLog(None, environment.writer),
            ResultSink(emit),
        )
        self._outputs.opener.patient = True
        self._outputs.switch(plan, self._outputs.open(plan))

    def deliver(self, batch: int, results: Sequence[tuple[int, int, Batch]]) -> None:
        """Writes the results of a batch and commits them as one epoch.

        Raises JobsFailed for a sink that fails once all others have the batch, and TryAgain where
        one has no space."""
        outputs = self._outputs
        outputs.handle_errors([(port, rows) for _, port, rows in results if port in _ERRORS])
        self._raise_for_rows()
        for _, port, rows in results:
            if port not in _ERRORS:
                outputs.write(self._names[port], rows)
        self._raise_for_rows()  # those that a table cannot take
        _answered(partial(outputs.commit, self._first_epoch + batch))
        _answered(outputs.roll)
        outputs.raise_failures(self._plan)

    def _raise_for_rows(self) -> None:
        if self._outputs.errors.fatal:
            self._outputs.raise_failures(self._plan)

    def finish(self) -> None:
        """Publishes what is complete now: no more rows come. Raises as `deliver`."""
        _answered(partial(self._outputs.roll, end=True))
        self._outputs.raise_failures(self._plan)

    def close(self) -> None:
        """Closes all sinks."""
        self._outputs.close()


def _answered(call: Callable[[], None]) -> None:
    """Makes a call until every table has answered, or has had the time that it may take."""
    while True:
        try:
            return call()
        except Unanswered:
            continue
