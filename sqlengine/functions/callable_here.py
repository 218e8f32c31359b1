"""The functions of users that can be called in this process."""

from __future__ import annotations

from functools import partial

from sqlengine.functions.aggregates import UserAggregate
from sqlengine.functions.kernels import TableKernel, kernel_of
from sqlengine.functions.processes import register_process
from sqlengine.functions.sinks import register_sink
from udf.aggregates.registry import register_aggregate
from udf.registry import register_user
from udf.tables import register_table
from udf.user import Kind, UserFunction, definition_of

_functions: dict[str, UserFunction] = {}


def make_callable(function: UserFunction) -> None:
    """Makes a function callable by its identity, which stands for one content. The pool needs its
    sources before the first call."""
    if function.kind is Kind.SCALAR:
        register_user(definition_of(function, kernel_of(function)))
    elif function.kind is Kind.TABLE:
        register_table(function.identity, partial(TableKernel, function))
    elif function.kind is Kind.PROCESS:
        register_process(function)
    elif function.kind is Kind.SINK:
        register_sink(function)
    else:
        register_aggregate(function.identity, partial(UserAggregate, function))
    _functions[function.identity] = function


def is_callable(function: UserFunction) -> bool:
    """True if the function can be called by its identity."""
    return _functions.get(function.identity) == function


def function_named(identity: str) -> UserFunction:
    """Returns the function of that identity, which was made callable."""
    return _functions[identity]
