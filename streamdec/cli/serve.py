"""``streamdec serve``: OpenAI's and Anthropic's APIs for an engine or a text."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from streamdec.cli.loading import Loader, data_file, loading_options
from streamdec.cli.progress import say
from streamdec.cli.shared_options import UserPath
from streamdec.cli.statuses import CannotBeginError
from streamdec.cli.stop_options import markers_option
from streamdec.preflight.snapshot import open_snapshot
from streamdec.preflight.snapshot_tokens import Tokens
from streamdec.preflight.stop_tokens import EosSources
from streamdec.server.engines import Engine, ReplayEngine, load_engine
from streamdec.server.limits import ServerLimits
from streamdec.tokenizers._extras import library
from streamdec.tokenizers.tokenizer_report import LoadedTokenizer

VARIABLE = "STREAMDEC_API_KEY"
_DEFAULTS = ServerLimits()
_IDLE_SECONDS = 75
"""Seconds that a connection waits for its next request: longer than nginx, which keeps it for 60
seconds and would otherwise use a connection that is being closed."""


def _limit_option(name: str, help_text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option(
        f"--limit-{name.replace('_', '-')}",
        name,
        type=click.IntRange(min=0 if name == "waiting" else 1),
        default=getattr(_DEFAULTS, name),
        show_default=True,
        metavar="N",
        help=help_text,
    )


@click.command()
@click.option(
    "--tokenizer",
    metavar="PATH",
    type=UserPath(),
    help="A tokenizer file, its folder, or a name, as for 'info'. Required with --engine. The "
    "default is the demo's.",
)
@loading_options
@click.option(
    "--engine",
    "engine_name",
    metavar="MODULE:CALLABLE",
    help="The callable that yields token ids. Without it, a text is replayed.",
)
@click.option(
    "--text",
    metavar="FILE",
    type=UserPath(dir_okay=False, path_type=Path),
    help="The text to replay. The default is the demo's.",
)
@click.option(
    "--rate",
    type=click.FloatRange(min=0),
    default=40,
    show_default=True,
    help="Tokens per second of the replay; 0 is as fast as possible.",
)
@click.option(
    "--model",
    "names",
    multiple=True,
    metavar="NAME",
    help="The model's name for clients; may be repeated. The default is the tokenizer's.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8000,
    show_default=True,
    help="The port to listen on; 0 is a free one.",
)
@click.option(
    "--api-key",
    "api_keys",
    multiple=True,
    metavar="KEY",
    envvar=VARIABLE,
    help=f"The key that requests need; may be repeated. Prefer {VARIABLE} "
    "(several with spaces between), which other users of the machine cannot read.",
)
@click.option(
    "--chat-template",
    metavar="FILE",
    type=UserPath(dir_okay=False, path_type=Path),
    help="A chat template to use instead of the model's own.",
)
@click.option(
    "--eos-token-id",
    "eos_token_ids",
    type=click.IntRange(min=0),
    multiple=True,
    metavar="ID",
    help="An id that ends a stream; may be repeated. The default is all ids of "
    "generation_config.json or, without them, the tokenizer's EOS id.",
)
@markers_option(
    "--reasoning-markers",
    "The texts around the model's reasoning, such as '<think>' '</think>'; may be repeated. Stops "
    "do not count between them, and chats and messages have the reasoning as a separate part. "
    r"\n, \t and \uXXXX are read as escapes, and \\ as a backslash.",
)
@click.option(
    "--allow-host",
    "allow_hosts",
    multiple=True,
    metavar="NAME",
    help="A name to accept in the Host header, beside localhost; may be repeated. The default is "
    "any name; or only localhost if only this machine can reach the server, as with the default "
    "--host.",
)
@click.option(
    "--page/--no-page",
    default=None,
    help="Serve a page at / to try the server in a browser. The default is yes for the replay.",
)
@click.option(
    "--grace",
    type=click.IntRange(min=0),
    default=30,
    show_default=True,
    metavar="SECONDS",
    help="How long streams may continue after SIGTERM or Ctrl-C before they are cut.",
)
@click.option("--access-log", is_flag=True, help="Log each request: its path and its status.")
@_limit_option("body_bytes", "Maximum size of a request, in bytes.")
@_limit_option("prompt_tokens", "Maximum number of tokens in a prompt.")
@_limit_option("max_tokens", "Maximum number of tokens in an answer, and the default.")
@_limit_option("running", "Maximum number of samples that are generated at once.")
@_limit_option("waiting", "Maximum number of requests beyond these; more get status 429.")
def serve(
    tokenizer: str | None,
    load: Loader,
    engine_name: str | None,
    text: Path | None,
    rate: float,
    names: tuple[str, ...],
    host: str,
    port: int,
    api_keys: tuple[str, ...],
    chat_template: Path | None,
    eos_token_ids: tuple[int, ...],
    reasoning_markers: tuple[tuple[str, str], ...],
    allow_hosts: tuple[str, ...],
    page: bool | None,
    grace: int,
    access_log: bool,
    **limits: int,
) -> None:
    """Serve OpenAI's and Anthropic's APIs over an engine of token ids.

    The server is made for development, for tests, and for small services behind a proxy. The
    engine is your callable, which turns prompt ids into token ids. Without --engine, a text is
    replayed, so that you can try the command. The paths are /v1/completions,
    /v1/chat/completions, /v1/messages (Anthropic's), /v1/models, /health, /metrics (with
    prometheus_client) and, with --page, /.

    \b
    Examples:
      streamdec serve
      streamdec serve --tokenizer ./model --engine my_engine:generate --model tiny
      streamdec serve --tokenizer ./model --text answer.txt --rate 100 --port 8080
    """
    from streamdec import server

    if engine_name is not None and text is not None:
        raise click.UsageError("--text is only for the replay; remove --text or --engine")
    if engine_name is not None and tokenizer is None:
        # The ids of the engine would be decoded with the tokenizer of another model.
        raise click.UsageError("--engine needs --tokenizer, that of the engine's model")
    uvicorn = library("uvicorn", "server", "the server needs")
    options = {} if chat_template is None else {"chat_template": chat_template}
    loaded = load("demo" if tokenizer is None else tokenizer, **options)
    engine = _engine(engine_name, loaded, text, rate)
    try:
        application = server.create_app(
            loaded,
            engine,
            models=names or (_name_of(tokenizer),),
            limits=ServerLimits(**limits),
            eos_token_ids=eos_token_ids or _eos_token_ids(tokenizer, loaded),
            reasoning_markers=reasoning_markers,
            api_keys=api_keys,
            hosts=_hosts(host, allow_hosts),
            page=engine_name is None if page is None else page,
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if not api_keys and not _is_loopback(host):
        say(f"Warning: anyone who can reach {host} can use the server. Set {VARIABLE}.")
    uvicorn.run(
        application,
        host=host,
        port=port,
        access_log=access_log,
        lifespan="on",
        ws="none",
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=grace,
    )


def _engine(name: str | None, tokenizer: LoadedTokenizer, text: Path | None, rate: float) -> Engine:
    if name is not None:
        return load_engine(name, str(Path.cwd()))
    source = data_file("demo_text.txt") if text is None else text
    try:
        replayed = source.read_text("utf-8").rstrip("\n")
    except UnicodeDecodeError as error:
        raise CannotBeginError(f"{text} is not UTF-8: byte {error.start}") from error
    return ReplayEngine(tokenizer.encode(replayed).ids, rate)


def _is_loopback(host: str) -> bool:
    """Return whether only this machine can reach ``host``."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _hosts(host: str, allowed: tuple[str, ...]) -> list[str]:
    """Return the names to accept in the Host header."""
    if not allowed and not _is_loopback(host):
        return ["*"]
    own = f"[{host}]" if ":" in host else host
    return ["localhost", "127.0.0.1", "[::1]", own, *allowed]


def _name_of(tokenizer: str | None) -> str:
    """Return the default name of a model, which is never its path."""
    if tokenizer is None:
        return "demo"
    path = Path(tokenizer)
    return (path.parent.name if path.is_file() else path.name) or "model"


def _eos_token_ids(tokenizer: str | None, loaded: LoadedTokenizer) -> list[int]:
    """Return the EOS ids of generation_config.json, else that of the tokenizer."""
    if tokenizer is not None and Path(tokenizer).exists():
        path = Path(tokenizer)
        snapshot = open_snapshot(path if path.is_dir() else path.parent)
        found = EosSources(snapshot, Tokens(snapshot)).generation
        if found:
            return [token_id for token_id, _ in found]
    token = loaded.special_tokens.eos_token
    token_id = None if token is None else loaded.token_to_id(token)
    return [] if token_id is None else [token_id]
