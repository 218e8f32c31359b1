"""The arguments of a call of a process function, by name or by place: tables, constants, `on_time`
and `uid`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from sqlglot import exp

from parser.dialect import position_of
from parser.errors import PlanError
from planner.binder.expressions.casts import implicit_cast
from planner.binder.expressions.scalars import bind_scalar
from planner.binder.scope import Context, Place, Scope, did_you_mean
from planner.catalog import Function
from planner.passes.constant_folding import folded
from planner.scalar import Literal, Scalar
from udf.casts.coercion import can_assign
from udf.user import Parameter, ProcessTraits, type_named

ON_TIME, UID = "on_time", "uid"
_UID_FORM: Final = re.compile(r"[a-zA-Z_][a-zA-Z-_0-9]*")


@dataclass(frozen=True)
class Arguments:
    """The arguments of one call of a function, as the text has them."""

    function: Function
    node: exp.Expression
    context: Context

    @property
    def traits(self) -> ProcessTraits:
        assert self.function.user.process is not None
        return self.function.user.process

    def error(
        self, what: str, hint: str | None = None, node: exp.Expression | None = None
    ) -> PlanError:
        """The error that begins with the name of the function. Without a hint it shows how the
        function is called."""
        return PlanError(
            f"'{self.function.display}' {what}",
            hint=hint or f"it is {self._signature}",
            position=position_of(node or self.node),
        )

    @property
    def _signature(self) -> str:
        tables = (f"{t.name} => TABLE t PARTITION BY k" for t in self.traits.tables)
        scalars = (f"{p.name} => {p.type}" for p in self.function.user.parameters)
        system = (f"{ON_TIME} => DESCRIPTOR(ts)", f"{UID} => 'name'")
        return f"{self.function.display}({', '.join((*tables, *scalars, *system))})"

    @cached_property
    def given(self) -> Mapping[str, exp.Expression]:
        """The arguments by name, without those for which DEFAULT stands."""
        tables = (t.name for t in self.traits.tables)
        scalars = (p.name for p in self.function.user.parameters)
        names = (*tables, *scalars, ON_TIME, UID)
        given: dict[str, exp.Expression] = {}
        for place, node in enumerate(self.node.expressions):
            name, value = self._named(node, place, names)
            if name in given:
                raise self.error(f"has the argument '{name}' twice", None, node)
            given[name] = value
        return {n: v for n, v in given.items() if not _is_default(v)}

    def _named(
        self, node: exp.Expression, place: int, names: Sequence[str]
    ) -> tuple[str, exp.Expression]:
        if not isinstance(node, exp.Kwarg):
            if any(isinstance(n, exp.Kwarg) for n in self.node.expressions):
                raise self.error("is called with arguments by name and by place", None, node)
            if place >= len(names):
                raise self.error("has too many arguments", None, node)
            return names[place], node
        if node.this.name not in names:
            hint = did_you_mean(node.this.name, names, "argument")
            raise self.error(f"has no argument '{node.this.name}'", hint, node)
        return node.this.name, node.args["expression"]

    @property
    def times(self) -> tuple[str, ...]:
        """The columns that `on_time` names."""
        node = self.given.get(ON_TIME)
        if node is None:
            return ()
        named = isinstance(node, exp.Anonymous) and node.name.upper() == "DESCRIPTOR"
        if not named or not all(isinstance(e, exp.Column) for e in node.expressions):
            raise self.error("takes on_time => DESCRIPTOR(column)", None, node)
        return tuple(e.name for e in node.expressions)

    @property
    def uid(self) -> str:
        """The identity of the call in its job: the function's name where it is not given, and
        nothing where there is nothing to be kept under it."""
        node = self.given.get(UID)
        if node is None:
            return self.function.display.rpartition(".")[2] if self.traits.remembers else ""
        text = node.name if isinstance(node, exp.Literal) and node.is_string else ""
        if not _UID_FORM.fullmatch(text):
            hint = "write uid => 'name': letters, digits, - and _, no digit first"
            raise self.error("has an invalid uid", hint, node)
        return text

    def scalars(self) -> list[tuple[str, Literal]]:
        """The constants by name; those that are left out have the defaults of the function."""
        values = []
        for parameter in self.function.user.parameters:
            node = self.given.get(parameter.name)
            if node is None and not parameter.optional:
                raise self.error(f"lacks its argument '{parameter.name}'")
            if node is not None:
                values.append((parameter.name, self._scalar(parameter, node)))
        return values

    def _scalar(self, parameter: Parameter, node: exp.Expression) -> Literal:
        wanted = type_named(parameter.type)
        place = Place(self.context, Scope(), "an argument of a process function")
        value = bind_scalar(node, place)
        if not can_assign(value.type, wanted) and not _is_null(value):
            what = f"takes {wanted.plain} as '{parameter.name}', but {value.type.plain} is given"
            raise self.error(what, None, node)
        value = folded(implicit_cast(value, wanted, node))
        if not isinstance(value, Literal):
            raise self.error(f"takes a constant as '{parameter.name}'", None, node)
        if value.value is None and not parameter.takes_null:
            hint = f"hint it as {parameter.name}: … | None"
            raise self.error(f"takes no NULL as '{parameter.name}'", hint, node)
        return value


def _is_default(node: exp.Expression) -> bool:
    """True for the keyword DEFAULT."""
    return isinstance(node, exp.Column | exp.Var) and node.name.upper() == "DEFAULT"


def _is_null(value: Scalar) -> bool:
    return isinstance(value, Literal) and value.value is None
