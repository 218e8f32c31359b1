"""Descriptions and calls of what a module declares. Runs in the worker."""

from __future__ import annotations

import inspect
from collections.abc import Sequence

import pyarrow as pa

from sqlengine.functions.calls import (
    AggregateCall,
    Call,
    ScalarCall,
    SinkCall,
    TableCall,
    VectorCall,
)
from sqlengine.functions.hints import BadSignature, Spec, describe_aggregate, describe_function
from sqlengine.functions.process_calls import ProcessCall
from sqlengine.functions.process_hints import describe_process
from sqlengine.functions.process_sdk import ProcessDeclaration
from sqlengine.functions.sdk import MARK, AsyncDeclaration, Declaration


def describe(target: object) -> Spec:
    """Describes a decorated function: kind, types and options. BadSignature names the parameter at
    fault."""
    declaration = getattr(target, MARK, None)
    if isinstance(declaration, ProcessDeclaration):
        return describe_process(target, declaration)
    if isinstance(declaration, Declaration):
        if declaration.kind == "aggregate":
            return describe_aggregate(target, declaration)
        return describe_function(target, declaration)
    if inspect.isfunction(target):  # deterministic only by declaration
        return describe_function(target, Declaration("scalar", deterministic=False))
    raise BadSignature("it is no function", "decorate a function with @sqlengine.udf")


def make_call(target: object, schemas: Sequence[pa.Schema]) -> Call:
    """Makes the call of a function. `schemas`: of the arguments, and of the result, whose fields
    have their SQL type in the metadata."""
    declared = getattr(target, MARK, None)
    if not isinstance(declared, Declaration):
        declared = Declaration("scalar")
    if declared.kind == "aggregate":
        return AggregateCall(target, *schemas)
    if isinstance(declared, ProcessDeclaration):
        assert isinstance(target, type)
        return ProcessCall(target, *schemas)
    if not callable(target):
        raise BadSignature("it is no function")
    if isinstance(declared, AsyncDeclaration):
        # An event loop is a third of what else a worker loads.
        from sqlengine.functions import async_calls

        if declared.kind == "table":
            return async_calls.AsyncTableCall(target, declared, *schemas)
        return async_calls.AsyncScalarCall(target, declared, *schemas)
    if declared.kind == "table":
        return TableCall(target, *schemas)
    if declared.kind == "sink":
        return SinkCall(target, schemas[0], declared.vectorized)
    return (VectorCall if declared.vectorized else ScalarCall)(target, *schemas)
