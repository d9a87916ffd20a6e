# ruff: noqa: ARG001 - a filter that asks for the context is not run by the compiler
# ruff: noqa: N802 - jinja2 calls visitors by the names of its nodes
"""The meter's place in a template's tree: what no call and no operator of the sandbox goes through.

In: the parsed tree of a template. Out: the same tree with nodes that pay, which gives the same
text: steps where a body begins that may run more than once, and filters around what is written out,
cut, looked up or compared. Its environment has to have a property ``step``, which pays for a pass
and is true, and the filters of ``FILTERS``, which take their meter from ``running_meter``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from jinja2 import Environment, nodes, pass_context
from jinja2.runtime import Context, Undefined
from jinja2.visitor import NodeTransformer

from streamdec.chat._guard_rules import SMALL, compared
from streamdec.chat._meter import ITEM, running_meter

__all__ = ["FILTERS", "metered"]

N = TypeVar("N", bound=nodes.Node)

_SCALARS = frozenset((int, bool, float, type(None), Undefined))

# Filters of names that no template can write; a filter is the call that costs least.
_HELD, _WEIGHED, _SEARCHED = "list display", "operand", "operand of in"
_CUT, _UNPACKED = "slice of", "arguments"


@pass_context
def _held(context: Context, value: Any) -> Any:
    """A list, tuple or dict that the template writes out."""
    running_meter.get().hold(value)
    return value


@pass_context
def _weighed(context: Context, value: Any) -> Any:
    """An operand of a comparison, or a key: paid for if it is not small."""
    kind = type(value)
    if kind not in _SCALARS and (kind is not str or len(value) > SMALL):
        meter = running_meter.get()
        meter.spend(compared(meter, value))
    return value


@pass_context
def _searched(context: Context, value: Any) -> Any:
    """What ``in`` looks through."""
    if type(value) is not dict and (type(value) is not str or len(value) > SMALL):
        meter = running_meter.get()
        meter.spend(compared(meter, value, searched=True))
    return value


@pass_context
def _cut(context: Context, value: Any, start: Any, stop: Any, step: Any) -> Any:
    """``value[start:stop:step]``"""
    result = value[start:stop:step]
    if not isinstance(value, Undefined) and hasattr(result, "__len__"):
        size = len(result)
        running_meter.get().spend(size if isinstance(result, (str, bytes)) else ITEM * size)
    return result


@pass_context
def _unpacked(context: Context, value: Any) -> Any:
    """``*value`` or ``**value`` of a call."""
    meter = running_meter.get()
    if hasattr(value, "__next__"):
        return list(meter.count(value, ITEM))
    if hasattr(value, "__len__"):
        meter.make_items(len(value))
    return value


FILTERS: Mapping[str, Callable[..., Any]] = {
    _HELD: _held,
    _WEIGHED: _weighed,
    _SEARCHED: _searched,
    _CUT: _cut,
    _UNPACKED: _unpacked,
}
"""What the environment of a metered tree has to have among its filters."""


def metered(tree: nodes.Template, environment: Environment) -> nodes.Template:
    """``tree``, which is changed in place, with the meter in it.

    ``environment`` is the one that the new nodes belong to: that of the tree.
    """
    return cast(nodes.Template, _Metering(environment).visit(tree))


class _Metering(NodeTransformer):
    """Puts the meter into a template's tree.

    Loops and macros pay where their bodies begin, and long runs of statements now and then. Lists
    and dicts that are written out, slices, keys and operands of comparisons are weighed; constants
    are not, they are no larger than the template.
    """

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    def generic_visit(self, node: nodes.Node, *args: Any, **kwargs: Any) -> nodes.Node:
        super().generic_visit(node, *args, **kwargs)
        for field in ("body", "else_"):
            body = getattr(node, field, None)
            if isinstance(body, list):
                steps = self._with_steps(body)
                if field == "body" and isinstance(node, _BEGINS):
                    for _ in range(1 + len(getattr(node, "args", ())) // 16):
                        steps.insert(0, self._new(nodes.ExprStmt, node, self._step(node)))
                setattr(node, field, steps)
        return node

    def visit_For(self, node: nodes.For) -> nodes.Node:
        self.generic_visit(node)
        if node.test is not None:
            node.test = self._new(nodes.And, node.test, self._step(node.test), node.test)
        return node

    def visit_List(self, node: nodes.List) -> nodes.Node:
        self.generic_visit(node)
        return node if _is_small(node.items) else self._filter(_HELD, node)

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:
        self.generic_visit(node)
        return node if node.ctx != "load" or _is_constant(node) else self._filter(_HELD, node)

    def visit_Dict(self, node: nodes.Dict) -> nodes.Node:
        self.generic_visit(node)
        for pair in node.items:
            if not isinstance(pair.key, nodes.Const):
                pair.key = self._filter(_WEIGHED, pair.key)
        parts = [part for pair in node.items for part in (pair.key, pair.value)]
        return node if _is_small(parts) else self._filter(_HELD, node)

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:
        self.generic_visit(node)
        if isinstance(node.arg, nodes.Slice):
            part = node.arg
            bounds = [
                self._new(nodes.Const, node, None) if bound is None else bound
                for bound in (part.start, part.stop, part.step)
            ]
            return self._filter(_CUT, node.node, *bounds)
        if not isinstance(node.arg, nodes.Const):
            node.arg = self._filter(_WEIGHED, node.arg)
        return node

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:
        self.generic_visit(node)
        operands = [node.expr, *(each.expr for each in node.ops)]
        if (
            len(operands) == 2
            and node.ops[0].op in ("eq", "ne")
            and any(map(_is_constant, operands))
        ):
            return node  # no longer than the constant is
        if not _is_constant(node.expr):
            node.expr = self._filter(_WEIGHED, node.expr)
        for each in node.ops:
            if not (_is_constant(each.expr) or isinstance(each.expr, nodes.List)):
                name = _SEARCHED if each.op in ("in", "notin") else _WEIGHED
                each.expr = self._filter(name, each.expr)
        return node

    def visit_Call(self, node: nodes.Call) -> nodes.Node:
        return self._with_arguments(node)

    def visit_Filter(self, node: nodes.Filter) -> nodes.Node:
        return self._with_arguments(node)

    def visit_Test(self, node: nodes.Test) -> nodes.Node:
        return self._with_arguments(node)

    def _with_arguments(self, node: Any) -> nodes.Node:
        self.generic_visit(node)
        for field in ("dyn_args", "dyn_kwargs"):
            if getattr(node, field) is not None:
                setattr(node, field, self._filter(_UNPACKED, getattr(node, field)))
        return cast(nodes.Node, node)

    def _with_steps(self, body: list[nodes.Node]) -> list[nodes.Node]:
        """``body`` with a step for every 16 nodes; each part of an output counts as one."""
        steps: list[nodes.Node] = []
        count = 0
        for node in body:
            count += len(node.nodes) if isinstance(node, nodes.Output) else 1
            while count >= 16:
                steps.append(self._new(nodes.ExprStmt, node, self._step(node)))
                count -= 16
            steps.append(node)
        return steps

    def _step(self, beside: nodes.Node) -> nodes.Expr:
        return self._new(nodes.EnvironmentAttribute, beside, "step")

    def _filter(self, name: str, node: nodes.Expr, *args: nodes.Expr) -> nodes.Expr:
        return self._new(nodes.Filter, node, node, name, list(args), [], None, None)

    def _new(self, kind: type[N], beside: nodes.Node, *fields: Any) -> N:
        return kind(*fields, lineno=beside.lineno, environment=self._environment)


_BEGINS = (nodes.For, nodes.Macro, nodes.CallBlock, nodes.Block)
"""Nodes whose body may be run more than once."""


def _is_constant(node: nodes.Node) -> bool:
    """Whether Python makes the value once, when the template is compiled."""
    if isinstance(node, nodes.Tuple):
        return all(map(_is_constant, node.items))
    return isinstance(node, nodes.Const)


def _is_small(parts: list[nodes.Expr]) -> bool:
    """Whether a list or dict of ``parts``, which is made anew each time, is not worth weighing."""
    return len(parts) <= 8 and all(isinstance(part, nodes.Const) for part in parts)
