"""The checks before a release, each session in its own environment: ``nox``.

``nox --list`` lists the sessions. Arguments after ``--`` are passed to pytest:
``nox -s tests-3.12 -- tests/core``. uv downloads a Python that is not installed. If it cannot,
nox skips the session and says so (with ``CI`` in the environment, this is an error).

Only pyproject.toml has the versions of Python, extras, tools and tokenizers: in the classifiers,
the optional dependencies and the dependency groups.
"""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

import nox

nox.options.default_venv_backend = "uv|virtualenv"

PROJECT = nox.project.load_toml("pyproject.toml")
PYTHONS = nox.project.python_versions(PROJECT)
LOWEST_PYTHON = PYTHONS[0]
GROUPS = PROJECT["dependency-groups"]
TOKENIZERS = [name for name in GROUPS if name.startswith("tokenizers-")]

CORE_TESTS = [
    "tests/core",
    "tests/streams",
    "tests/test_laws.py",
    "tests/test_stop_laws.py",
]
"""Tests that need only the dependencies of the core and a few libraries."""
SDIST_TESTS = [
    *CORE_TESTS,
    "tests/backends",
    "tests/fastpath",
    "tests/folders",
    "tests/cli",
    "tests/loading",
    "tests/tokenizers",
    "tests/platform",
    "tests/test_exports.py",
    "tests/test_layers.py",
    "tests/test_project_files.py",
]
"""Tests to run from the unpacked sdist: those that read its files, and those of the laws."""
ENGINES = {
    "datasets": ["tests/bulk"],
    "dynamo": ["tests/integrations/dynamo"],
    "engines": [
        "tests/docs/test_engines.py",
        "tests/integrations/mlx_lm",
        "tests/integrations/transformers",
        "tests/loading/test_by_transformers.py",
        "tests/server/test_docs.py",
    ],
    "llama-cpp": ["tests/integrations/llama_cpp"],
    "ray": ["tests/bulk", "tests/integrations/moving"],
    "rollouts": ["tests/integrations/rollouts"],
    "sglang": [
        "plugins/sglang/tests",
        "tests/plugins/test_sglang.py",
        "tests/plugins/test_both.py",
    ],
    "spark": ["tests/bulk/test_tables.py"],
    "vllm": [
        "tests/docs/test_engines.py",
        "plugins/vllm/tests",
        "tests/plugins/test_vllm.py",
        "tests/plugins/test_both.py",
    ],
}
"""The dependency groups of engines and other libraries, and the tests that need them."""
TYPICAL_USES = "tests/typing/typical_uses.py"
CHECK_PUBLIC_TYPES = "scripts/check_public_types.py"


# --- tests ----------------------------------------------------------------------------------------


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """The whole suite."""
    session.install("--editable", ".[test]")
    session.run("python", "-m", "pytest", *session.posargs)


@nox.session(python=LOWEST_PYTHON, venv_backend="uv")
def lowest(session: nox.Session) -> None:
    """The whole suite with the lowest dependencies that pyproject.toml allows."""
    _install_lowest(session, "--extra", "test")
    session.run("python", "-m", "pytest", *session.posargs)


@nox.session(name="lowest-core", python=LOWEST_PYTHON, venv_backend="uv")
def lowest_core(session: nox.Session) -> None:
    """The core with its lowest dependencies, which other extras would raise."""
    extras = ["testing", "sentencepiece", "tiktoken", "bulk"]
    _install_lowest(session, "--group", "core-tests", *(f"--extra={extra}" for extra in extras))
    session.run("python", "-m", "pytest", *(session.posargs or CORE_TESTS))


def _install_lowest(session: nox.Session, *wanted: str) -> None:
    """Installs the package with extras or groups, all at the lowest versions allowed."""
    # The lowest version with a wheel for this Python. Older versions might not build.
    lowest = ["--resolution", "lowest-direct", "--only-binary", ":all:"]
    session.install(*lowest, *wanted, "--requirement", "pyproject.toml")
    session.install("--no-deps", "--editable", ".")


def _with_tokenizers(series: str) -> None:
    """Makes the session of one series of tokenizers."""

    @nox.session(name=series, python=LOWEST_PYTHON)
    def session_of_series(session: nox.Session) -> None:
        session.install("--editable", ".[test]", *GROUPS[series])
        session.run("python", "-m", "pytest", *session.posargs)

    session_of_series.__doc__ = f"The whole suite with {GROUPS[series][0]}."


for each in TOKENIZERS:
    _with_tokenizers(each)


def _with_engine(group: str) -> None:
    """Makes the session of one dependency group of engines."""

    @nox.session(name=group, python=LOWEST_PYTHON, default=False)
    def session_of_engine(session: nox.Session) -> None:
        session.install("--editable", ".[test]", *GROUPS[group])
        if f"{group}-alone" in GROUPS:
            session.install("--no-deps", *GROUPS[f"{group}-alone"])
        if Path("plugins", group).is_dir():
            session.install("--no-deps", "--editable", f"plugins/{group}")
        session.run("python", "-m", "pytest", "-m", "", *ENGINES[group], *session.posargs)

    session_of_engine.__doc__ = f"The tests that need the dependency group {group}."


for each in ENGINES:
    _with_engine(each)


@nox.session(python=LOWEST_PYTHON, default=False)
def mutants(session: nox.Session) -> None:
    """Random mutants of the core and the streams, which the tests must catch. Takes hours."""
    session.install("--editable", ".[test]")
    session.run("python", "-m", "fuzz.random_mutants", *session.posargs)


# --- checks of the source -------------------------------------------------------------------------


@nox.session(python=LOWEST_PYTHON)
def lint(session: nox.Session) -> None:
    """Ruff's rules and its format."""
    session.install("--editable", ".[test]")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session(python=LOWEST_PYTHON)
def types(session: nox.Session) -> None:
    """The source under mypy, and under pyright."""
    session.install("--editable", ".[test]", *GROUPS["typing"])
    session.run("mypy")
    session.run("pyright")


@nox.session(python=PYTHONS)
def typing(session: nox.Session) -> None:
    """The types that users see: typical uses of the wheel, and public names without types."""
    wheel, _ = _built(session)
    session.install(f"{wheel}[test]", *GROUPS["typing"])
    # From its own folder, which has no source, so that the wheel is imported.
    folder = Path(session.create_tmp()).resolve()
    uses = Path(shutil.copy(TYPICAL_USES, folder))
    version = str(session.python)
    settings = folder / "pyrightconfig.json"
    settings.write_text(PYRIGHT_FOR_USERS % version)
    with session.chdir(folder):
        session.run("mypy", "--strict", "--python-version", version, uses.name)
        session.run("pyright", "--project", str(settings))
        verify = ["pyright", "--outputjson", "--ignoreexternal", "--verifytypes", "streamdec"]
        report = session.run(*verify, silent=True, success_codes=[0, 1])  # 1: of internals too
    session.run("python", CHECK_PUBLIC_TYPES, str(_kept(folder, report)))


def _kept(folder: Path, report: object) -> Path:
    """The file that a report is in."""
    path = folder / "completeness.json"
    path.write_text(str(report), "utf-8")
    return path


PYRIGHT_FOR_USERS = """\
{
    "include": ["typical_uses.py"],
    "pythonVersion": "%s",
    "typeCheckingMode": "strict",
    "enableTypeIgnoreComments": false,
    "reportUnnecessaryTypeIgnoreComment": "error"
}
"""
"""Mypy's comments are not for pyright, so that each of the two has to find each error."""


@nox.session(python=LOWEST_PYTHON)
def docs(session: nox.Session) -> None:
    """The documentation, where a warning is an error."""
    session.install("--editable", ".[docs]")
    folder = Path(session.create_tmp(), "html")
    # Build all pages, because those of an earlier build would not be checked again.
    options = ["-q", "-W", "--keep-going", "--fresh-env", "--write-all"]
    session.run("sphinx-build", *options, "docs", str(folder))


# --- what is released -----------------------------------------------------------------------------


PLUGINS = {"plugins/sglang": "streamdec_sglang", "plugins/vllm": "streamdec_vllm"}


@nox.session(python=PYTHONS)
def packages(session: nox.Session) -> None:
    """Wheels and sdists of the library and the plugins, tested in empty environments."""
    wheel, sdist = _built(session)
    session.run("twine", "check", "--strict", str(wheel), str(sdist))
    _try_wheel(session, wheel)
    _try_plugins(session, wheel)
    _try_sdist(session, sdist)


def _built(session: nox.Session, source: str = ".") -> tuple[Path, Path]:
    """The sdist, and the wheel that is built from it."""
    session.install(*GROUPS["packaging"])
    folder = Path(session.create_tmp(), "dist", source).resolve()
    shutil.rmtree(folder, ignore_errors=True)
    session.run("python", "-m", "build", "--outdir", str(folder), source, silent=True)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist


def _try_plugins(session: nox.Session, library: Path) -> None:
    """Install each plugin with the library, from its wheel and its sdist, without an engine."""
    for source, module in PLUGINS.items():
        files = _built(session, source)
        session.run("twine", "check", "--strict", *map(str, files))
        for file in files:
            python = _empty_environment(session, module)
            with session.chdir(session.create_tmp()):
                install = [python, "-m", "pip", "install", "--quiet", str(library), str(file)]
                session.run(*install, external=True)
                session.run(python, "-W", "error", "-c", PLUGIN_SMOKE.format(module), external=True)
                session.run(python, "-m", "pip", "check", external=True)


PLUGIN_SMOKE = """
import {0}
from importlib.metadata import entry_points, version

(entry,) = [
    each
    for group in ("sglang.srt.plugins", "vllm.general_plugins")
    for each in entry_points(group=group, name="streamdec")
]
assert entry.load() is {0}.register
assert version("{0}") == {0}.__version__ == version("streamdec")
"""
"""Find the plugin as an engine does. Calling it would need the engine."""


def _empty_environment(session: nox.Session, name: str) -> str:
    """Return the Python of a new, empty environment."""
    folder = Path(session.create_tmp(), name).resolve()
    session.run("python", "-m", "venv", "--clear", str(folder), silent=True)
    return str(folder / ("Scripts" if (folder / "Scripts").exists() else "bin") / "python")


SMOKE = """
from importlib.metadata import requires, version
from importlib.util import find_spec
import streamdec
from streamdec import MockTokenizer, StopConditions, StopSequenceDecoder

assert "site-packages" in streamdec.__file__, streamdec.__file__
for absent in ("hypothesis", "jinja2", "numpy", "pytest", "starlette"):
    assert find_spec(absent) is None, absent
decoder = StopSequenceDecoder(
    MockTokenizer.from_tokens([b"caf\\xc3", b"\\xa9", b"\\nUs", b"er:"]),
    StopConditions(stop="\\nUser:"),
)
chunks = [decoder.step(token_id) for token_id in range(4)]
assert "".join(chunk.text for chunk in chunks) == "caf\\u00e9", chunks
assert chunks[-1].finish_reason == "stop", chunks
print("streamdec", version("streamdec"), "streams and stops without any extra")
"""


def _try_wheel(session: nox.Session, wheel: Path) -> None:
    """The core alone, then the command line."""
    python = _empty_environment(session, "wheel")
    with session.chdir(session.create_tmp()):
        session.run(python, "-m", "pip", "install", "--quiet", str(wheel), external=True)
        session.run(python, "-W", "error", "-c", SMOKE, external=True)
        # The line in the messages. It works with and without the package on an index.
        session.run(python, "-m", "pip", "install", "--quiet", "streamdec[cli]", external=True)
        session.run(python, "-m", "streamdec", "demo", external=True)
        session.run(python, "-m", "pip", "check", external=True)


def _try_sdist(session: nox.Session, sdist: Path) -> None:
    """Run the tests of the sdist, in the folder to which it is unpacked."""
    folder = Path(session.create_tmp(), "unpacked").resolve()
    shutil.rmtree(folder, ignore_errors=True)
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (root,) = folder.iterdir()
    python = _empty_environment(session, "sdist")
    with session.chdir(root):
        session.run(
            python, "-m", "pip", "install", "--quiet", "--editable", ".[test]", external=True
        )
        session.run(python, "-m", "pytest", *(session.posargs or SDIST_TESTS), external=True)
