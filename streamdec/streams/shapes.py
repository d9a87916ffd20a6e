"""Fast readers for outputs that have the shape of an earlier output.

The shape is that of most outputs: one sample, with a list of ids, and without a finish reason. It
is learnt from dicts and dataclasses. :class:`~streamdec.streams.outputs.OutputReader` reads all
other outputs. A field is read directly, because asking whether it exists takes three times as long.
An index is compared by identity: Python has one object for each small integer, and ``True`` is not
an index.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import is_dataclass
from typing import Any

IDS = ("token_ids", "output_ids")
"""The fields in which engines keep ids: vLLM and Dynamo, then SGLang."""
NEW_IDS = "token_ids_diff"
"""The field in which TensorRT-LLM keeps new ids; its ``token_ids`` are all ids so far."""

Shape = Callable[[Any], Sequence[Any] | None]
"""Returns the ids of an output; None if it has another shape."""


def no_shape(output: Any) -> None:
    """Return None: no output has this shape."""


def shape_of(output: Any, sample: Any, name: str, chosen: int | None) -> Shape:
    """Return the function that reads outputs like ``output``; else ``no_shape``.

    Args:
        output: an output that was read.
        sample: the sample in it; ``output`` itself, if it has no samples.
        name: the field with the ids.
        chosen: the index of the sample to read; None if no sample had an index.
    """
    is_whole = sample is output
    if is_whole and type(output) is dict and "outputs" not in output:
        shape = _shape_of_dict(output, name, chosen)
    elif not is_whole and is_dataclass(sample) and not hasattr(sample, "meta_info"):
        shape = _shape_with_sample(type(sample), name == NEW_IDS, chosen)
    else:
        return no_shape
    return no_shape if shape(output) is None else shape


def _shape_of_dict(output: dict[str, Any], name: str, chosen: int | None) -> Shape:
    """Return the reader of dicts with the same keys in the same order, such as SGLang's."""
    keys, size = [*output], len(output)
    has_reason, has_about, has_index = map(keys.count, ("finish_reason", "meta_info", "index"))
    has_others = size > 1 + has_reason + has_about + has_index

    def read(output: Any) -> list[Any] | None:
        try:
            ids = output[name]
            if has_reason and output["finish_reason"] is not None:
                return None
            if has_about:
                about = output["meta_info"]
                if type(about) is not dict or about.get("finish_reason") is not None:
                    return None
            is_alike = not has_index or output["index"] is chosen
        except KeyError:
            return None
        is_alike = is_alike and ([*output] == keys if has_others else len(output) == size)
        return ids if is_alike and type(ids) is list else None

    return read


def _shape_with_sample(sample_type: Any, is_new: bool, chosen: int | None) -> Shape:
    """Return the reader of outputs with one sample, like those of vLLM and TensorRT-LLM."""

    def read(output: Any) -> list[Any] | None:
        try:
            samples = output.outputs
            if type(samples) is not list:
                return None
            [sample] = samples
            if type(sample) is not sample_type:
                return None
            ids = sample.token_ids_diff if is_new else sample.token_ids
            is_alike = type(ids) is list and sample.index is chosen
            return ids if is_alike and sample.finish_reason is None else None
        except (AttributeError, ValueError):
            return None

    return read
