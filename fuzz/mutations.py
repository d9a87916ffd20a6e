"""The small changes that can be made to a module: the mutants that ``fuzz.random_mutants`` draws.

Each is an edit of the source that keeps the number of lines. Docstrings, annotations, messages,
``assert`` statements, ``__repr__`` and ``if TYPE_CHECKING`` are left as they are.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from itertools import accumulate
from typing import NamedTuple

COMPARISONS: Mapping[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
NEGATED = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn)
"""Comparisons whose mutant is the opposite, which is also what swapped branches give."""
TYPES_ONLY = {"TypeVar", "TypeVarTuple", "ParamSpec", "NewType"}
UNTESTED = re.compile(r"(typing\.)?TYPE_CHECKING|__name__ ==|sys\.version_info")
"""The condition of a block that does not run in these tests."""


class Mutant(NamedTuple):
    """One edit of one module."""

    path: str
    """Of the module, relative to the root of the repository."""
    kind: str
    start: int
    """The offset of the first byte that is replaced."""
    end: int
    new: bytes

    def applied(self, source: bytes) -> bytes:
        """Return ``source`` with the edit. The number of lines stays the same."""
        return source[: self.start] + self.new + source[self.end :]

    def lines(self, source: bytes) -> tuple[int, str, str]:
        """Return the number of the first changed line, its text, and the mutated text."""
        number = source.count(b"\n", 0, self.start)
        last = number + source.count(b"\n", self.start, self.end)
        old, new = (
            " ".join(b" ".join(text.split(b"\n")[number : last + 1]).decode().split())
            for text in (source, self.applied(source))
        )
        return number + 1, old, new


class _Collector(ast.NodeVisitor):
    """Collects the mutants of one module, except those that cannot change its behaviour."""

    def __init__(self, path: str, source: bytes) -> None:
        self.found: list[Mutant] = []
        self._path, self._source = path, source
        lengths = [len(line) + 1 for line in source.split(b"\n")]
        self._line_starts = list(accumulate(lengths, initial=0))

    def _start(self, node: ast.expr | ast.stmt) -> int:
        return self._line_starts[node.lineno - 1] + node.col_offset

    def _end(self, node: ast.expr | ast.stmt) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._line_starts[node.end_lineno - 1] + node.end_col_offset

    def _edit(self, kind: str, start: int, end: int, new: bytes) -> None:
        missing_lines = self._source.count(b"\n", start, end) - new.count(b"\n")
        self.found.append(Mutant(self._path, kind, start, end, new + b"\n" * missing_lines))

    def _replace(self, kind: str, node: ast.expr | ast.stmt, new: bytes) -> None:
        self._edit(kind, self._start(node), self._end(node), new)

    def _replace_operator(self, kind: str, after: int, before: int, old: str, new: str) -> None:
        """Replace the operator between two operands, which may have brackets around them."""
        between = self._source[after:before]
        match = re.search(rb"\s+".join(re.escape(word) for word in old.encode().split()), between)
        if match and b"#" not in between:
            self._edit(kind, after + match.start(), after + match.end(), new.encode())

    # Statements.

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        decorators = {ast.unparse(each) for each in node.decorator_list}
        if node.name != "__repr__" and not decorators & {"overload", "typing.overload"}:
            for each in (*node.decorator_list, node.args, *node.body):
                self.visit(each)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.visit_FunctionDef(node)

    def visit_arg(self, node: ast.arg) -> None:
        """Skip the annotation."""

    def visit_Assert(self, node: ast.Assert) -> None:
        """Skip it: a dropped assertion changes nothing while it holds."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Skip it: most are messages."""

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # A docstring, or an ellipsis.
            self._replace("dropped expression", node, b"pass")
            self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        value = node.value
        makes_type = isinstance(value, ast.Call) and ast.unparse(value.func) in TYPES_ONLY
        names = {each.id for each in node.targets if isinstance(each, ast.Name)}
        if makes_type or names & {"__all__", "__version__"}:
            return
        if any(isinstance(each, (ast.Attribute, ast.Subscript)) for each in node.targets):
            self._replace("dropped assignment", node, b"pass")
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            if isinstance(node.target, ast.Attribute):
                self._replace("dropped assignment", node, b"pass")
            self.visit(node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._replace("dropped assignment", node, b"pass")
        if isinstance(node.op, (ast.Add, ast.Sub)):
            operators = ("+=", "-=") if isinstance(node.op, ast.Add) else ("-=", "+=")
            after, before = self._end(node.target), self._start(node.value)
            self._replace_operator("arithmetic", after, before, *operators)
        self.generic_visit(node)

    def visit_Delete(self, node: ast.Delete) -> None:
        if not all(isinstance(each, ast.Name) for each in node.targets):
            self._replace("dropped del", node, b"pass")
            self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        if "NotImplementedError" not in ast.unparse(node):
            self._replace("dropped raise", node, b"pass")
            self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None and ast.unparse(node.value) != "None":
            self._replace("dropped return value", node, b"return None")
            self.generic_visit(node)

    def visit_If(self, node: ast.If | ast.IfExp) -> None:
        test = node.test
        if UNTESTED.match(ast.unparse(test)):
            for each in node.orelse if isinstance(node, ast.If) else ():
                self.visit(each)
            return
        # These two have the same mutant already, as a removed `not` or another comparison.
        is_not = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
        is_negated = isinstance(test, ast.Compare) and [type(op) in NEGATED for op in test.ops]
        if node.orelse and not is_not and is_negated != [True]:
            text = self._source[self._start(test) : self._end(test)]
            self._replace("swapped branches", test, b"not (" + text + b")")
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.visit_If(node)

    # Expressions.

    def visit_Call(self, node: ast.Call) -> None:
        is_cast = ast.unparse(node.func) in ("cast", "typing.cast")
        arguments = node.args[1:] if is_cast else node.args
        for each in (node.func, *arguments, *node.keywords):
            self.visit(each)

    def visit_keyword(self, node: ast.keyword) -> None:
        """Skip the line of a warning, and ``strict=True``, which asserts."""
        if ast.unparse(node) != "strict=True" and node.arg != "stacklevel":
            self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        operands = (node.left, *node.comparators)
        for left, op, right in zip(operands, node.ops, node.comparators, strict=False):
            after, before = self._end(left), self._start(right)
            self._replace_operator("comparison", after, before, *COMPARISONS[type(op)])
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        words = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._replace_operator("and/or", self._end(left), self._start(right), *words)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        texts = [isinstance(each, ast.JoinedStr) for each in (node.left, node.right)]
        texts += [
            isinstance(each, ast.Constant) and isinstance(each.value, (str, bytes))
            for each in (node.left, node.right)
        ]
        if isinstance(node.op, (ast.Add, ast.Sub)) and not any(texts):
            signs = ("+", "-") if isinstance(node.op, ast.Add) else ("-", "+")
            after, before = self._end(node.left), self._start(node.right)
            self._replace_operator("arithmetic", after, before, *signs)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            start = self._start(node)
            blank = self._source[start + len("not") :]
            self._edit("removed not", start, start + 3 + len(blank) - len(blank.lstrip(b" ")), b"")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._replace("boolean", node, str(not node.value).encode())
        elif isinstance(node.value, int):
            self._replace("off by one", node, str(node.value + 1).encode())
            if node.value > 0:
                self._replace("off by one", node, str(node.value - 1).encode())


def mutants_of(path: str, source: bytes) -> list[Mutant]:
    """Return every mutant of a module, in the order of its lines."""
    collector = _Collector(path, source)
    collector.visit(ast.parse(source))
    return sorted(collector.found, key=lambda mutant: (mutant.start, mutant.end, mutant.new))


def differs(mutant: Mutant, source: bytes) -> bool:
    """Return whether the mutant is valid Python and other code than ``source``."""
    try:
        compile(mutant.applied(source), mutant.path, "exec", dont_inherit=True)
    except SyntaxError:
        return False
    return ast.dump(ast.parse(mutant.applied(source))) != ast.dump(ast.parse(source))
