# ruff: noqa: ARG001 - a filter that asks for the context is not run by the compiler
"""A chat template's environment with a meter: the same text, or an error before it costs too much.

In: an environment and limits. Out: its twin, which renders what it renders, byte for byte, and
stops a template that goes over the limits with a :class:`ChatTemplateError`.

The sandbox of jinja2 stops code, not cost. Here every operation of a template that can cost more
than its own text is asked before it runs. Calls and operators go through the sandbox already; the
rest is reached through the syntax tree (:mod:`streamdec.chat._metering`) and the names that
compiled templates look up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, update_wrapper
from string import Formatter
from types import (
    BuiltinMethodType,
    CodeType,
    FunctionType,
    GeneratorType,
    MethodDescriptorType,
    MethodType,
)
from typing import Any, cast

from jinja2 import Template, TemplateSyntaxError, nodes, pass_context
from jinja2.exceptions import SecurityError
from jinja2.runtime import BlockReference, Context, LoopContext, Macro
from jinja2.sandbox import (
    ImmutableSandboxedEnvironment,
    SandboxedEscapeFormatter,
    SandboxedFormatter,
    modifies_known_mutable,
)
from jinja2.utils import Namespace
from markupsafe import Markup

from streamdec.chat import _metering
from streamdec.chat._guard_rules import (
    DROPPED,
    FREE_FILTERS,
    METHODS,
    OTHER_METHODS,
    PLAIN_FILTERS,
    check_dict,
    check_operator,
    compared,
    filter_input,
    read_only,
    size_of,
)
from streamdec.chat._meter import CONTAINERS, ITEM, LIMITS, PASS, Limits, Meter, running_meter
from streamdec.chat._static_check import (
    RESOURCE_LIMIT,
    SANDBOX_VIOLATION,
    SYNTAX_ERROR,
    check_text,
    check_tree,
    too_much,
)
from streamdec.errors import ChatTemplateError

__all__ = ["error_code", "guarded_environment", "request_kwargs"]

FROM_REQUEST = "CHAT_TEMPLATE_FROM_REQUEST"
REFUSED_KWARGS = frozenset(("chat_template", "tokenize"))
"""What a request may not bring: vLLM refuses both, SGLang a template."""


def guarded_environment(
    environment: ImmutableSandboxedEnvironment, limits: Limits = LIMITS
) -> ImmutableSandboxedEnvironment:
    """The twin of ``environment`` that keeps ``limits``, for any number of threads.

    Filters, tests, globals and extensions are those of ``environment`` as they are now. Compiling
    and rendering raise :class:`ChatTemplateError` (``code``: ``CHAT_TEMPLATE_RESOURCE_LIMIT``) for
    what goes over a limit; whatever else a template raises is raised as ever.
    """
    twin = cast(Any, object.__new__(_guarded_class(cast(Any, type(environment)))))
    twin.__dict__.update(environment.__dict__)
    twin.overlayed, twin.linked_to = True, environment
    twin.limits = limits
    twin.extensions = {name: each.bind(twin) for name, each in environment.extensions.items()}
    twin.globals = _guarded_globals(environment.globals)
    filters = environment.filters.items()
    twin.filters = {name: _guarded_filter(name, function) for name, function in filters}
    twin.filters |= _metering.FILTERS
    tests = environment.tests.items()
    twin.tests = {name: _guarded_test(name, function) for name, function in tests}
    return cast(ImmutableSandboxedEnvironment, twin)


def error_code(error: BaseException) -> str | None:
    """The finding that ``error`` of a template stands for; None for an error of another kind."""
    if isinstance(error, ChatTemplateError):
        return error.code
    if isinstance(error, SecurityError):
        return SANDBOX_VIOLATION
    if isinstance(error, (RecursionError, MemoryError, OverflowError)):
        return RESOURCE_LIMIT
    if isinstance(error, (TemplateSyntaxError, SyntaxError)):
        return SYNTAX_ERROR
    return None


def request_kwargs(given: Mapping[str, Any] | None) -> dict[str, Any]:
    """The variables that a request brings for a template, without what no request may bring.

    A request's ``chat_template`` would be code of a stranger, run by whoever passes a mapping on;
    it is never taken from there. Raises :class:`ChatTemplateError` with the code
    ``CHAT_TEMPLATE_FROM_REQUEST`` for the keys ``chat_template`` and ``tokenize``.
    """
    kwargs = dict(given or {})
    for name in REFUSED_KWARGS & kwargs.keys():
        raise ChatTemplateError(
            f"template_kwargs may not have {name!r}: a request does not choose it; "
            "give it to render by its own name if that is what you want",
            code=FROM_REQUEST,
        )
    for name in kwargs:
        if not isinstance(name, str):
            raise ChatTemplateError(f"template_kwargs has a key that is no string: {name!r:.80}")
    return kwargs


# --- the environment ------------------------------------------------------------------------------


class _Guard(ImmutableSandboxedEnvironment):
    """What a guarded environment does in another way than the one it was made from."""

    intercepted_binops = frozenset(("+", "-", "*", "/", "//", "**", "%"))
    limits: Limits

    @property
    def step(self) -> bool:
        """Pays for a pass; compiled templates read it where a loop or a macro begins."""
        meter = running_meter.get()
        meter.left -= PASS
        if meter.left < 0:
            meter.refill()
        return True

    def getattr(self, obj: Any, attribute: str) -> Any:
        # What the sandbox does, without the questions whose answers the types give already; a key
        # of a dict costs it an AttributeError. This saves about what the meter costs.
        kind = type(obj)
        if kind is dict:
            if attribute in _GIVES_WHAT_IS_THERE:
                return getattr(obj, attribute)
            if attribute not in _OF_DICTS:
                try:
                    return obj[attribute]
                except KeyError:
                    return self.undefined(obj=obj, name=attribute)
        elif kind is str:
            if attribute in _OF_TEXTS:
                return getattr(obj, attribute)
        elif (kind is LoopContext or isinstance(obj, Namespace)) and not attribute.startswith("_"):
            value = getattr(obj, attribute, None)
            if type(value) in _PLAIN:
                return value
        return super().getattr(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        if type(obj) is dict:
            try:
                return obj[argument]
            except (TypeError, LookupError):
                pass  # the sandbox looks for an attribute then
        # dict[…] would be a type, which nothing here weighs.
        if isinstance(obj, type):
            raise SecurityError(f"access to items of the class {obj.__name__!r} is unsafe.")
        return super().getitem(obj, argument)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        meter = running_meter.get()
        if operator == "+" and type(left) is str and type(right) is str:
            size = len(left) + len(right) + ITEM
            if size + ITEM > meter.left or size > meter.limits.value:
                meter.make_text(size)
            else:  # the same without two calls: templates join most of their text like this
                meter.left -= size + ITEM
            return left + right
        check_operator(meter, operator, left, right)
        result = self.binop_table[operator](left, right)
        return result if type(result) in (str, int) else _checked(meter, result)

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805, PYI063 - kwargs may have any name
        meter = running_meter.get()
        meter.left -= PASS
        if meter.left < 0:
            meter.refill()
        kind = type(__obj)
        if kind is Macro or kind is LoopContext or kind is BlockReference:
            return __self._call_within(meter, __context, __obj, args, kwargs)
        if kind is BuiltinMethodType or kind is MethodType:
            owner = __obj.__self__
            if isinstance(owner, (str, bytes)):
                if __obj.__name__ == "join":
                    args = _with_lists(meter, args)
                METHODS.get(__obj.__name__, read_only)(meter, owner, args, kwargs)
                return _checked(meter, super().call(__context, __obj, *args, **kwargs))
            if isinstance(owner, (list, tuple, range)):
                meter.spend(ITEM * len(owner) + compared(meter, owner))
            elif isinstance(owner, dict) and __obj.__name__ in _GIVES_WHAT_IS_THERE:
                if args and type(args[0]) is tuple:  # its hash goes through all of it
                    meter.spend(meter.weigh(args[0])[0])
                if type(owner) is dict and kwargs.keys() <= _SCOPE_KWARGS:
                    return __obj(*args)  # as the sandbox would, without its questions
                return super().call(__context, __obj, *args, **kwargs)
            rule = OTHER_METHODS.get(__obj.__name__)
            if rule is not None:
                args = _with_lists(meter, args)
                rule(meter, owner, args, kwargs)
        elif kind is FunctionType:
            formatted: Any = getattr(__obj, "__wrapped__", None)
            text = getattr(formatted, "__self__", None)
            if isinstance(text, str):
                return __self._format(meter, text, formatted.__name__, args, kwargs)
        elif kind is MethodDescriptorType and args:
            # dict.update(message, …): the sandbox asks of the class, not of what would be changed.
            _refuse_change(args[0], __obj.__name__)
        elif __obj is __self.globals.get("dict"):
            args = _with_lists(meter, args)
            check_dict(meter, args)
        _hold_arguments(meter, args, kwargs)
        return _checked(meter, super().call(__context, __obj, *args, **kwargs))

    def _call_within(
        self, meter: Meter, context: Context, called: Any, args: Any, kwargs: Any
    ) -> Any:
        """A call that runs a part of the template: counted, as Python's stack is not ours alone."""
        if meter.calls >= meter.limits.calls:
            meter.refuse(f"more than {meter.limits.calls} calls within each other")
        if type(called) is Macro:
            if called.catch_varargs or called.catch_kwargs:
                _hold_arguments(meter, args, kwargs)
        elif type(called) is LoopContext and args and isinstance(args[0], str):
            meter.make_items(len(args[0]))
        meter.calls += 1
        try:
            return super().call(context, called, *args, **kwargs)
        finally:
            meter.calls -= 1

    def _format(
        self, meter: Meter, text: str, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> str:
        """``str.format`` and ``format_map``, which the sandbox wraps when they are looked up."""
        kwargs = {key: value for key, value in kwargs.items() if key not in _FRAME_KWARGS}
        if name == "format_map":
            if kwargs or len(args) != 1:
                raise TypeError("format_map() takes exactly one argument")
            kwargs, args = args[0], ()
        formatter: Formatter
        if isinstance(text, Markup):
            formatter = _MarkupFormatter(self, meter, escape=text.escape)
        else:
            formatter = _TextFormatter(self, meter)
        return type(text)(formatter.vformat(text, args, kwargs))

    def concat(self, pieces: Iterable[str]) -> str:
        """The pieces of a rendering, a macro or a block as one text."""
        meter = running_meter.get()
        if isinstance(pieces, list):
            meter.make_text(sum(map(len, pieces)))
            return "".join(pieces)
        return "".join(_paid_output(meter, pieces))

    def from_string(self, source: Any, *args: Any, **kwargs: Any) -> Template:
        try:
            return super().from_string(source, *args, **kwargs)
        except RecursionError:
            raise too_much("the template is nested too deeply for the compiler") from None
        except SyntaxError as error:  # Python's own limits: blocks within each other
            raise too_much(f"the template does not compile: {error.msg}") from error

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        check_text(self, source, self.limits.static)
        try:
            return super()._parse(source, name, filename)
        except RecursionError:
            raise too_much("the template is nested too deeply for the parser") from None

    def _generate(self, source: nodes.Template, *args: Any, **kwargs: Any) -> str:
        check_tree(source, self.limits.static)
        tree = _metering.metered(source, self)
        return super()._generate(tree, *args, **kwargs)


class _GuardedTemplate(Template):
    """A template whose rendering begins with a full meter."""

    @classmethod
    def from_code(
        cls,
        environment: Any,
        code: CodeType,
        globals: Any,  # noqa: A002 - jinja2's name
        uptodate: Callable[[], bool] | None = None,
    ) -> Template:
        template = super().from_code(environment, code, globals, uptodate)
        # The compiled functions look these names up in their module.
        names = template.root_render_func.__globals__
        for name, function in _guarded_names(names).items():
            names[name] = function
        return template

    def new_context(
        self,
        vars: dict[str, Any] | None = None,  # noqa: A002 - jinja2's name
        shared: bool = False,
        locals: Mapping[str, Any] | None = None,  # noqa: A002 - jinja2's name
    ) -> Context:
        environment = cast(_Guard, self.environment)
        running_meter.set(Meter(environment.limits, vars))
        return super().new_context(vars, shared, locals)

    def generate(self, *args: Any, **kwargs: Any) -> Iterator[str]:
        context = self.new_context(dict(*args, **kwargs))
        meter = running_meter.get()
        try:
            # One generator, not two: a rendering is a few hundred pieces.
            yield from _paid_output(meter, self.root_render_func(context))
        except Exception:  # noqa: BLE001 - jinja2's own way: the traceback names the template's line
            self.environment.handle_exception()


@cache
def _guarded_class(kind: Any) -> type:
    """``kind`` with the guard's methods before its own."""
    return type(
        f"Guarded{kind.__name__}",
        (_Guard, kind) if kind not in _Guard.__mro__ else (_Guard,),
        {"template_class": _GuardedTemplate},
    )


def _paid_output(meter: Meter, pieces: Iterable[str]) -> Iterator[str]:
    """The pieces of the text that comes out, each as soon as it is there."""
    left = meter.limits.output
    for piece in pieces:
        size = len(piece)
        left -= size
        meter.left -= size + ITEM
        if left < 0 or meter.left < 0:
            meter.spend(0)
            if left + 16 * meter.extra_if(left < 0) < 0:
                meter.refuse(f"more than {meter.limits.output:,} characters of output")
        yield piece


def _checked(meter: Meter, result: Any) -> Any:
    """What an operation gave, paid for."""
    kind = type(result)
    if kind is str:
        meter.make_text(len(result))
    elif kind in CONTAINERS:
        meter.hold(result)
    elif isinstance(result, (str, bytes)):
        meter.make_text(len(result))
    elif kind is int:
        meter.check_int(result.bit_length())
    return result


def _hold_arguments(meter: Meter, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Arguments that the callee may keep together."""
    given = [*args, *(value for name, value in kwargs.items() if name not in _FRAME_KWARGS)]
    if any(type(value) in CONTAINERS for value in given):
        meter.hold(given)
        meter.spend(meter.weigh(given)[0] >> 2)  # loop.changed compares them


def _with_lists(meter: Meter, args: Sequence[Any]) -> tuple[Any, ...]:
    """Iterators that the callee would read to their ends, as lists, whose sizes can be known."""
    return tuple(list(meter.count(a, ITEM)) if hasattr(a, "__next__") else a for a in args)


def _refuse_change(value: object, method: str) -> None:
    if modifies_known_mutable(value, method):
        kind = type(value).__name__
        raise SecurityError(f"access to attribute {method!r} of {kind!r} object is unsafe.")


_SMALL = 1024
"""Characters of a text with which plain filters run at once."""
_SCOPE_KWARGS = frozenset(("_loop_vars", "_block_vars"))
"""What jinja2 passes with a call, and takes out before a function is called that wants none."""
_FRAME_KWARGS = _SCOPE_KWARGS | {"caller"}
"""What jinja2 passes with a call, beside what the template passes."""
_PLAIN = frozenset((str, int, bool, float, list, dict, tuple))
_OF_DICTS = frozenset(dir(dict))
_OF_TEXTS = frozenset(name for name in dir(str) if name[0] != "_") - {"format", "format_map"}
_GIVES_WHAT_IS_THERE = frozenset(("get", "items", "keys", "values"))


# --- names that compiled templates look up --------------------------------------------------------


def _guarded_names(names: Mapping[str, Any]) -> dict[str, Any]:
    """``str``, ``escape`` and the joins behind ``~`` for one compiled template."""
    escape, str_join, markup_join = names["escape"], names["str_join"], names["markup_join"]

    def text(value: Any) -> str:
        if type(value) is str:
            return value
        result = str(value)
        running_meter.get().make_text(len(result))
        return result

    def escaped(value: Any) -> Any:
        meter = running_meter.get()
        meter.make_text(5 * size_of(value))
        return escape(value)

    def joined(parts: Sequence[Any]) -> str:
        meter = running_meter.get()
        size = 0
        for part in parts:
            size += len(part) if type(part) is str else meter.weigh(part)[0]
        meter.make_text(size)
        return cast(str, str_join(parts))

    def markup_joined(parts: Sequence[Any]) -> str:
        meter = running_meter.get()
        meter.make_text(5 * sum(meter.weigh(part)[0] for part in parts))
        return cast(str, markup_join(parts))

    return {"str": text, "escape": escaped, "str_join": joined, "markup_join": markup_joined}


class _TextFormatter(SandboxedFormatter):
    """The sandbox's formatter; each field is paid for, and none is padded far."""

    def __init__(self, environment: Any, meter: Meter, **options: Any) -> None:
        super().__init__(environment, **options)
        self._meter, self._size = meter, 0

    def format_field(self, value: Any, format_spec: str) -> str:
        self._meter.check_format(format_spec)
        text = cast(str, super().format_field(value, format_spec))
        self._size += len(text)
        self._meter.make_text(self._size)
        return text

    def convert_field(self, value: Any, conversion: Any) -> Any:
        if conversion is not None:
            self._meter.make_text(self._meter.weigh(value)[0])
        return super().convert_field(value, conversion)


class _MarkupFormatter(_TextFormatter, SandboxedEscapeFormatter):
    """The same for text that is marked as safe."""


# --- globals, filters and tests -------------------------------------------------------------------


def _guarded_globals(given: Mapping[str, Any]) -> dict[str, Any]:
    known = {name: value for name, value in given.items() if name not in DROPPED}
    if "range" in known:
        known["range"] = _guarded_range(known["range"])
    if isinstance(known.get("namespace"), type) and issubclass(known["namespace"], Namespace):
        known["namespace"] = _guarded_namespace(known["namespace"])
    if "strftime_now" in known:
        known["strftime_now"] = _guarded_clock(known["strftime_now"])
    return known


def _guarded_range(made_by: Callable[..., range]) -> Callable[..., range]:
    def guarded(*args: int) -> range:
        meter = running_meter.get()
        for bound in args:
            if isinstance(bound, int):
                meter.check_int(bound.bit_length())
        made = made_by(*args)
        allowed = meter.limits.range
        if len(made) > allowed and len(made) > allowed + meter.measure_input():
            meter.refuse(f"a range of {len(made):,} items")
        return made

    return update_wrapper(guarded, made_by)


def _guarded_clock(clock: Callable[[str], str]) -> Callable[[str], str]:
    def guarded(format: str) -> str:  # noqa: A002 - the name that templates may use
        # The C library pads to widths too, and Python tries up to 256 times the format's size.
        meter = running_meter.get()
        meter.check_format(str(format))
        return clock(format)

    return update_wrapper(guarded, clock)


def _guarded_namespace(kind: type) -> type:
    """A namespace changes, so what it holds is weighed whenever it is written out."""

    def __repr__(self: Any) -> str:  # noqa: N807
        meter = running_meter.get()
        attributes = object.__getattribute__(self, "_Namespace__attrs")
        total = sum(meter.weigh(value)[0] + len(str(name)) for name, value in attributes.items())
        meter.make_text(total)
        if meter.calls >= meter.limits.calls:
            meter.refuse(f"more than {meter.limits.calls} namespaces within each other")
        meter.calls += 1
        try:
            return Namespace.__repr__(self)
        finally:
            meter.calls -= 1

    return type(kind.__name__, (kind,), {"__repr__": __repr__})


def _guarded_filter(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The filter with its rule before it.

    It asks for the context, so that no constants are computed with it when a template is compiled.
    """
    if name in FREE_FILTERS:
        return function
    lead = _leading_argument(function)
    plain = name in PLAIN_FILTERS

    def guarded(context: Context, value: Any, *args: Any, **kwargs: Any) -> Any:
        meter = running_meter.get()
        if plain and type(value) is str and len(value) < _SMALL and not args and not kwargs:
            meter.spend(_SMALL)
            return function(*lead(context), value)
        taken = filter_input(meter, name, value, args, kwargs)
        result = _checked(meter, function(*lead(context), taken, *args, **kwargs))
        if type(result) is GeneratorType:
            meter.chain(value, result)
        return result

    return pass_context(guarded)


def _guarded_test(name: str, function: Any) -> Any:
    """Tests that go through what they are given; the others are as they were."""
    if name not in _COMPARING_TESTS:
        return function

    def guarded(context: Context, *values: Any) -> Any:
        meter = running_meter.get()
        for value in values:
            meter.spend(compared(meter, value))
        return function(*values)

    return pass_context(guarded)


_EQUAL = ("!=", "==", "eq", "equalto", "in", "ne", "sameas")
_ORDERED = ("<", "<=", ">", ">=", "ge", "greaterthan", "gt", "le", "lessthan", "lt")
_COMPARING_TESTS = frozenset((*_EQUAL, *_ORDERED, "lower", "upper"))


def _leading_argument(function: Callable[..., Any]) -> Callable[[Context], tuple[Any, ...]]:
    """What jinja2 passes before the value; ``pass_context`` and its like leave a mark."""
    mark = getattr(getattr(function, "jinja_pass_arg", None), "name", None)
    if mark == "context":
        return lambda context: (context,)
    if mark == "eval_context":
        return lambda context: (context.eval_ctx,)
    if mark == "environment":
        return lambda context: (context.environment,)
    return lambda _: ()
