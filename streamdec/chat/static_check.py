"""The check of a template before compiling: its size, depth, and called names.

In: an environment and a template's text. Out: the tree that jinja2 parses, and the called names.
Compiling a template runs parts of it, because jinja2's optimizer computes constants. Parsing runs
nothing. The parser is recursive, so brackets and blocks are counted among the tokens first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from jinja2 import Environment, TemplateSyntaxError, nodes
from jinja2.exceptions import SecurityError

from streamdec.errors import ChatTemplateError

RESOURCE_LIMIT = "CHAT_TEMPLATE_RESOURCE_LIMIT"
SANDBOX_VIOLATION = "CHAT_TEMPLATE_SANDBOX_VIOLATION"
SYNTAX_ERROR = "CHAT_TEMPLATE_SYNTAX_ERROR"
FAILS = "CHAT_TEMPLATE_FAILS"

BLOCK_TAGS = frozenset(
    ("for", "if", "macro", "call", "filter", "set", "with", "block", "autoescape", "generation")
)
OPENING, CLOSING = frozenset("([{"), frozenset(")]}")
ENDS_OF_TAGS = frozenset(("block_end", "variable_end"))
PREFIXES = frozenset(("not", "-", "+"))


@dataclass(frozen=True, slots=True)
class StaticLimits:
    """The limits of a template's text.

    The largest of twenty real templates has 17 kB and 1,045 nodes.
    """

    size: int = 256 * 1024
    """The most bytes of UTF-8."""
    nodes: int = 20_000
    """The most nodes of the syntax tree. The compiler's time grows with them."""
    tokens: int = 80_000
    """The most tokens of the lexer; a sixth of them is white space."""
    depth: int = 100
    """The most levels of the syntax tree: the compiler recurses at each. Real templates: 19."""
    nesting: int = 40
    """The most nested brackets, blocks, signs and ``else``: the parser recurses at each. Real
    templates: 11."""
    names: int = 1_000
    """The most different variables. The compiler copies their table for each branch."""
    int_bits: int = 4_096
    """The most bits of an integer in the text."""


@dataclass(frozen=True, slots=True)
class StaticReport:
    """The results of parsing a template."""

    tree: nodes.Template
    """The syntax tree."""
    called_names: frozenset[str]
    """The names of the functions and methods in calls: ``strftime_now``, ``items``."""


def check_template(environment: Environment, source: str) -> StaticReport:
    """Parse ``source`` and check it against the limits. Nothing is compiled or run.

    Raises :class:`ChatTemplateError`. Its ``code`` is ``CHAT_TEMPLATE_RESOURCE_LIMIT`` for a
    template over a limit, and ``CHAT_TEMPLATE_SYNTAX_ERROR`` for a text that jinja2 cannot parse.
    The size limit bounds the time and the memory of the check.
    """
    limits = StaticLimits()
    _check_text(environment, source, limits)
    try:
        tree = environment.parse(source)
    except RecursionError:
        raise too_much("the template is nested too deeply for the parser") from None
    except TemplateSyntaxError as error:
        raise _syntax_error(error, error.lineno) from error
    except ValueError as error:  # an integer of more digits than Python reads
        raise _syntax_error(error, None) from error
    return _check_tree(tree, limits)


def _check_text(environment: Environment, source: str, limits: StaticLimits) -> None:
    """Check size, number of tokens and nesting before the text is parsed.

    Raises :class:`ChatTemplateError`.
    """
    size = len(source)
    if size <= limits.size:
        size = len(source.encode("utf-8", "surrogatepass"))
    if size > limits.size:
        raise too_much(f"the template has {size:,} bytes; {limits.size:,} are allowed")
    try:
        for nesting in _nesting(environment, source, limits.tokens):
            if nesting > limits.nesting:
                raise too_much(
                    f"the template is nested {nesting} deep; {limits.nesting} are allowed"
                )
    except TemplateSyntaxError as error:
        raise _syntax_error(error, error.lineno) from error


def _check_tree(tree: nodes.Template, limits: StaticLimits) -> StaticReport:
    """Check a parsed template. Raises :class:`ChatTemplateError` over a limit."""
    count = deepest = 0
    called, names = set[str](), set[str]()
    level: list[nodes.Node] = [tree]
    while level:
        deepest += 1
        count += len(level)
        if deepest > limits.depth:
            raise too_much(f"the template is nested more than {limits.depth} levels deep")
        if count > limits.nodes:
            raise too_much(f"the template has more than {limits.nodes:,} nodes")
        for node in level:
            if isinstance(node, nodes.Call):
                called.update(_called_name(node))
            elif isinstance(node, nodes.Name):
                names.add(node.name)
            elif isinstance(node, nodes.Const):
                _check_constant(node, limits)
        level = [child for node in level for child in node.iter_child_nodes()]
    if len(names) > limits.names:
        raise too_much(f"the template has {len(names):,} variables; {limits.names:,} are allowed")
    return StaticReport(tree, frozenset(called))


def error_code(error: BaseException) -> str | None:
    """Return the code of preflight's finding for an error that a template raised."""
    if isinstance(error, ChatTemplateError):
        return error.code
    if isinstance(error, SecurityError):
        return SANDBOX_VIOLATION
    if isinstance(error, (RecursionError, MemoryError, OverflowError)):
        return RESOURCE_LIMIT
    if isinstance(error, (TemplateSyntaxError, SyntaxError)):
        return SYNTAX_ERROR
    return FAILS


def too_much(message: str) -> ChatTemplateError:
    """Return the error of a template over a limit."""
    return ChatTemplateError(message, code=RESOURCE_LIMIT)


def _syntax_error(error: Exception, line: int | None) -> ChatTemplateError:
    place = "" if line is None else f", line {line}"
    return ChatTemplateError(f"the template cannot be read{place}: {error}", code=SYNTAX_ERROR)


def _nesting(environment: Environment, source: str, tokens: int) -> Iterator[int]:
    """Yield after each token an upper bound of the parser's depth.

    Blocks, brackets, signs and ``else`` each count as a level.
    """
    blocks = inside = prefixes = 0
    tag: str | None = None
    for number, (_, token, value) in enumerate(environment.lexer.tokeniter(source, None)):
        if number >= tokens:
            raise too_much(f"the template has too many tokens of jinja2; {tokens:,} are allowed")
        if token == "whitespace":
            continue
        if token == "block_begin":
            tag = ""
        elif token in ENDS_OF_TAGS:
            tag, inside, prefixes = None, 0, 0
        elif tag == "":
            tag = value
            blocks += (value in BLOCK_TAGS) - value.startswith("end")
        elif token == "operator" and value in OPENING:
            inside += 1
        elif token == "operator" and value in CLOSING:
            inside -= 1
        elif tag == "set" and value == "=" and not inside:
            blocks -= 1  # set x = y has no end tag
            tag = "set ="
        elif value == "else" and token == "name":
            inside += 1  # a if b else (c if d else (e …
        prefixes = prefixes + 1 if value in PREFIXES else 0
        yield max(blocks, 0) + max(inside, 0) + prefixes


def _called_name(call: nodes.Call) -> Iterator[str]:
    if isinstance(call.node, nodes.Name):
        yield call.node.name
    elif isinstance(call.node, nodes.Getattr):
        yield call.node.attr


def _check_constant(node: nodes.Const, limits: StaticLimits) -> None:
    if isinstance(node.value, int) and node.value.bit_length() > limits.int_bits:
        raise too_much(f"line {node.lineno}: an integer of more than {limits.int_bits:,} bits")
