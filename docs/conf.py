"""How the pages become a site: ``python -m sphinx -W docs build/docs``."""

from __future__ import annotations

import contextlib
import importlib
import re
import sys
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

from docutils.nodes import Node
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.errors import PycodeError
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.nodes import make_refnode

sys.path.insert(0, str(Path(__file__).parent))

import llms_txt
from generated import filled

from streamdec import StopConditions

project = "streamdec"
author = "The streamdec authors"
project_copyright = author
version = release = version_of("streamdec")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_click",
    "sphinx_copybutton",
]
nitpicky = True
# Names that are imported for types alone.
nitpick_ignore_regex = [
    ("py:class", r"pa\..*|Clock|CollectorRegistry|MeterProvider|Operation|StopOptions|UnknownIds"),
    ("py:class", r"FastMode|NewTemplate|Path|TokenizerConfigChanges"),
]

myst_heading_anchors = 4
myst_enable_extensions = ["substitution"]
myst_substitutions = {"version": version}

autodoc_default_options = {"members": True, "inherited-members": "BaseException,dict,tuple,object"}
autodoc_member_order = "bysource"
maximum_signature_line_length = 88
toc_object_entries_show_parents = "hide"
smartquotes_action = "De"  # quotes in docstrings are Python's

copybutton_exclude = ".linenos, .gp, .go"
html_theme = "furo"
html_title = "streamdec"
# Lines of examples have up to 92 letters; at the theme's own size many are cut off.
_CODE_SIZE = {"code-font-size": "var(--font-size--small--3)"}
html_theme_options = {"light_css_variables": _CODE_SIZE, "dark_css_variables": _CODE_SIZE}


def _resolve(app: Sphinx, env: Any, node: pending_xref, text: Node) -> Node | None:
    """Leads a name to where it is public, by whatever path it is reached.

    What exists and has no place on a page stays plain text. What does not exist is a broken link.
    """
    if node.get("refdomain") != "py":
        return None
    path = node["reftarget"].split(".")
    for start in range(len(path)):
        name = ".".join(path[start:])
        found = env.domains.python_domain.find_obj(env, "", None, name, None, searchmode=1)
        if len(found) == 1:
            [(_, at)] = found
            return make_refnode(app.builder, node["refdoc"], at.docname, at.node_id, text)
    return text if _exists(path, node.get("py:module")) else None


def _exists(path: list[str], module: str | None) -> bool:
    """Whether there is such a thing: a private type, one of Python's or of another library."""
    for start in (module, "streamdec", "builtins", None):
        for cut in range(len(path), -1, -1):
            name = ".".join([*([start] if start else []), *path[:cut]])
            try:
                found: Any = sys.modules.get(name) or importlib.import_module(name)
                for part in path[cut:]:
                    found = getattr(found, part)
            except (ImportError, AttributeError, ValueError):
                continue
            return True
    return False


def _whole_sentence(*event: Any) -> None:
    """Keeps napoleon from taking an attribute's sentence for a type, as far as its first colon."""
    _app, what, _name, _object, _options, lines = event
    if what in ("attribute", "data", "property"):
        lines[:0] = ["..", ""]  # an empty comment


def _lent_constant(*event: Any) -> None:
    """Gives a constant that a module only lends the docstring that it has in its own module."""
    _app, what, path, value, _options, lines = event
    if what != "data":
        return
    name = path.rpartition(".")[2]
    for module, loaded in sorted(sys.modules.items()):
        if module.startswith("streamdec") and getattr(loaded, name, None) is value:
            with contextlib.suppress(PycodeError):
                said = ModuleAnalyzer.for_module(module).find_attr_docs().get(("", name))
                if said:
                    lines[:] = said
                    return


def _no_reprs(*event: Any) -> tuple[str, str] | None:
    """Writes defaults as people would, and nothing of how one makes a protocol: nobody does.

    They are ``...`` where they are no Python, such as a dataclass's ``<factory>``.
    """
    _app, what, _path, value, _options, signature, returns = event
    if what == "class" and getattr(value, "_is_protocol", False):
        return "", ""
    if not signature:
        return None
    signature = re.sub(r", _\w+: \w+(?=[,)])", "", signature)  # private fields
    signature = signature.replace(repr(StopConditions()), "StopConditions()")
    signature = re.sub(r"\bM\b", "Machine", signature)  # a variable with that bound
    returns = re.sub(r"\bM\b", "Machine", returns or "")
    return re.sub(r"= <.*?>(?=[,)])", "= ...", signature), returns


def _filled(_app: Sphinx, _page: str, source: list[str]) -> None:
    """Puts the parts of a page that are made from the code in their places."""
    source[0] = filled(source[0])


def _write_llms_txt(app: Sphinx, error: Exception | None) -> None:
    if error is None and app.builder.format == "html":
        Path(app.outdir, "llms.txt").write_text(llms_txt.text(), "utf-8")


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", _filled)
    app.connect("autodoc-process-docstring", _lent_constant, priority=300)
    app.connect("autodoc-process-docstring", _whole_sentence, priority=400)
    app.connect("autodoc-process-signature", _no_reprs)
    app.connect("missing-reference", _resolve)
    app.connect("build-finished", _write_llms_txt)
