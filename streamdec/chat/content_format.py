"""Whether a template takes a message's content as a string or as a list of parts.

In: a parsed template. Out: a :class:`~streamdec.chat.ContentFormat`, as vLLM and SGLang find it.
"""

from __future__ import annotations

from collections.abc import Iterator

from jinja2 import nodes

from streamdec.chat.messages import ContentFormat


def content_format_of(tree: nodes.Template) -> ContentFormat:
    """Return the content format of ``tree``.

    A template takes parts if it has a ``for`` loop over the ``content`` of a message, or over a
    variable called ``content``, such as an argument of a macro. Filters, tests, slices and the
    branches of an inline ``if`` do not hide the loop's source. A message is the loop variable of a
    ``for`` over ``messages`` or over a variable that was set to them. The result is ``"parts
    only"`` if the template also never tests whether a value is a string.
    """
    conversations = _aliases(tree, {"messages"})
    messages = {
        loop.target.name
        for loop in tree.find_all(nodes.For)
        if isinstance(loop.target, nodes.Name)
        and any(_is_name(source, conversations) for source in _sources(loop.iter))
    }
    messages = _aliases(tree, messages)
    for loop in tree.find_all(nodes.For):
        for source in _sources(loop.iter):
            if _is_name(source, {"content"}) or _is_content(source, messages, conversations):
                asks = any(test.name == "string" for test in tree.find_all(nodes.Test))
                return "parts" if asks else "parts only"
    return "string"


def _aliases(tree: nodes.Template, names: set[str]) -> set[str]:
    """``names`` and every variable that is set to one of them, or to a part of one."""
    found = set(names)
    while True:
        more = {
            each.target.name
            for each in tree.find_all(nodes.Assign)
            if isinstance(each.target, nodes.Name)
            and any(_is_name(source, found) for source in _sources(each.node))
        }
        if more <= found:
            return found
        found |= more


def _sources(value: nodes.Node | None) -> Iterator[nodes.Node]:
    """The expressions whose value ``value`` may be, or may be a selection of."""
    if isinstance(value, (nodes.Filter, nodes.Test)) or (
        isinstance(value, nodes.Getitem) and isinstance(value.arg, nodes.Slice)
    ):
        yield from _sources(value.node)
    elif isinstance(value, nodes.CondExpr):
        yield from _sources(value.expr1)
        yield from _sources(value.expr2)
    elif value is not None:
        yield value


def _is_name(value: nodes.Node, names: set[str]) -> bool:
    return isinstance(value, nodes.Name) and value.name in names


def _is_content(value: nodes.Node, messages: set[str], conversations: set[str]) -> bool:
    """Whether ``value`` is the content of a message, or of ``messages[0]``.

    ``message.content`` and ``message['content']`` are both recognised.
    """
    if isinstance(value, nodes.Getattr):
        named = value.attr == "content"
    elif isinstance(value, nodes.Getitem):
        named = isinstance(value.arg, nodes.Const) and value.arg.value == "content"
    else:
        return False
    if not named:
        return False
    owner = value.node
    if isinstance(owner, nodes.Getitem) and not isinstance(owner.arg, nodes.Slice):
        return _is_name(owner.node, conversations)
    return _is_name(owner, messages)
