"""The registry of hooks. Only hooks around and after a method are applied."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from enum import Enum
from functools import wraps
from pkgutil import resolve_name
from typing import Any, ClassVar


class HookType(Enum):
    BEFORE = "before"
    AFTER = "after"
    AROUND = "around"
    REPLACE = "replace"


class HookRegistry:
    """The hooks of each target, which is a dotted path."""

    _hooks: ClassVar[dict[str, list[Any]]] = defaultdict(list)
    _patched: ClassVar[set[str]] = set()

    @classmethod
    def register(
        cls,
        target: str,
        hook: Callable[..., Any],
        hook_type: HookType = HookType.AFTER,
        *,
        source: Any = None,
    ) -> None:
        cls._hooks[target].append((hook_type, hook, source))

    @classmethod
    def apply_hooks(cls) -> None:
        for target in cls._hooks.keys() - cls._patched:
            path, _, name = target.rpartition(".")
            owner = resolve_name(path)
            for hook_type, hook, _ in cls._hooks[target]:
                wrap = {HookType.AROUND: _around, HookType.AFTER: _after}[hook_type]
                setattr(owner, name, wrap(getattr(owner, name), hook))
            cls._patched.add(target)

    @classmethod
    def reset(cls) -> None:
        cls._hooks.clear()
        cls._patched.clear()


def _around(original: Callable[..., Any], hook: Callable[..., Any]) -> Callable[..., Any]:
    return wraps(original)(lambda *args, **kwargs: hook(original, *args, **kwargs))


def _after(original: Callable[..., Any], hook: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def wrapped(*args: Any, **options: Any) -> Any:
        result = original(*args, **options)
        changed = hook(result, *args, **options)
        return result if changed is None else changed

    return wrapped
