"""``streamdec serve``: OpenAI's and Anthropic's APIs for an engine or a text."""

from __future__ import annotations

import ipaddress
import os
from pathlib import Path

import click
from click.core import ParameterSource

from streamdec.cli import shared
from streamdec.errors import StreamdecError
from streamdec.jsonl import utf8_text
from streamdec.preflight.eos_sources import EosSources
from streamdec.preflight.snapshot import Snapshot
from streamdec.preflight.snapshot_tokens import Tokens
from streamdec.server.engines import Engine, ReplayEngine, load_engine
from streamdec.tokenizers._extras import library
from streamdec.tokenizers.tokenizer_report import LoadedTokenizer

VARIABLE = "STREAMDEC_API_KEY"
_IDLE_SECONDS = 75
"""Seconds that a connection waits for its next request: longer than nginx, which keeps it for 60
seconds and would otherwise use a connection that is being closed."""


@click.command()
@shared.tokenizer_argument(default="demo")
@click.option(
    "--engine",
    "engine_name",
    metavar="MODULE:CALLABLE",
    help="The callable that yields token ids. Without it, a text is replayed.",
)
@click.option(
    "--text",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
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
    "--reasoning-markers",
    type=(shared.stop_text, shared.stop_text),
    multiple=True,
    metavar="OPEN CLOSE",
    help="The texts around the model's reasoning, such as '<think>' '</think>'; may be repeated. "
    "Stops do not count between them, and chats and messages have the reasoning as a separate "
    "part.",
)
@shared.eos_option
@click.option(
    "--allow-host",
    "allow_hosts",
    multiple=True,
    metavar="NAME",
    help="A name to accept in the Host header, beside localhost; may be repeated. The default is "
    "any name, or only localhost with a --host that only this machine can reach.",
)
@click.option("--page", is_flag=True, help="Serve the page at / with an engine, too.")
@click.option(
    "--grace",
    type=click.IntRange(min=0),
    default=30,
    show_default=True,
    metavar="SECONDS",
    help="How long streams may continue after SIGTERM or Ctrl-C before they are cut.",
)
def serve(
    tokenizer: shared.Source,
    engine_name: str | None,
    text: Path | None,
    rate: float,
    names: tuple[str, ...],
    host: str,
    port: int,
    api_keys: tuple[str, ...],
    reasoning_markers: tuple[tuple[str, str], ...],
    eos_token_ids: tuple[int, ...],
    allow_hosts: tuple[str, ...],
    page: bool,
    grace: int,
) -> None:
    """Serve OpenAI's and Anthropic's APIs over an engine.

    The server is made for development, for tests, and for small services behind a proxy. The
    engine is your callable, which turns prompt ids into token ids. Without --engine, a text is
    replayed, so that you can try the command. The paths are /v1/completions,
    /v1/chat/completions, /v1/messages (Anthropic's), /v1/models, /health, /metrics (with
    prometheus_client) and, for the replay or with --page, /.

    \b
    Examples:
      streamdec serve
      streamdec serve ./model --engine my_engine:generate --model tiny
      streamdec serve ./model --text answer.txt --rate 100 --port 8080
    """
    from streamdec import server

    if engine_name is not None and text is not None:
        raise click.UsageError("--text is only for the replay; remove --text or --engine")
    given = click.get_current_context().get_parameter_source("tokenizer")
    if engine_name is not None and given is ParameterSource.DEFAULT:
        # The ids of the engine would be decoded with the tokenizer of another model.
        raise click.UsageError("--engine needs TOKENIZER, that of the engine's model")
    if not api_keys and os.environ.get(VARIABLE):
        raise click.UsageError(f"{VARIABLE} has no key, only spaces; set a key, or unset it")
    uvicorn = library("uvicorn", "server", "the server needs")
    loaded = tokenizer.load()
    engine = _engine(engine_name, loaded, text, rate)
    with shared.wrong_usage():
        application = server.create_app(
            loaded,
            engine,
            models=names or (_name_of(tokenizer.name),),
            eos_token_ids=eos_token_ids or _eos_token_ids(tokenizer.name, loaded),
            reasoning_markers=reasoning_markers,
            api_keys=api_keys,
            hosts=_hosts(host, allow_hosts),
            page=page or engine_name is None,
        )
    if not api_keys and not _is_loopback(host):
        message = f"Warning: anyone who can reach {host} can use the server. Set {VARIABLE}."
        shared.tell(message)
    try:
        uvicorn.run(
            application,
            host=host,
            port=port,
            access_log=False,
            lifespan="on",
            ws="none",
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=_IDLE_SECONDS,
            timeout_graceful_shutdown=grace,
        )
    except SystemExit as error:  # uvicorn has logged the reason
        why = f"the server did not start on {host}, port {port}; the messages above say why"
        raise StreamdecError(why) from error


def _engine(name: str | None, tokenizer: LoadedTokenizer, text: Path | None, rate: float) -> Engine:
    if name is not None:
        return load_engine(name, str(Path.cwd()))
    if text is None:
        replayed = shared.packaged_text("demo_text.txt")
    else:
        try:
            replayed = utf8_text(text.read_bytes())
        except ValueError as error:
            raise click.UsageError(f"{text}: {error}") from error
    return ReplayEngine(tokenizer.encode(replayed.rstrip("\n")).ids, rate)


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


def _name_of(tokenizer: str) -> str:
    """Return the default name of a model, which is never its path."""
    path = Path(tokenizer)
    return (path.parent.name if path.is_file() else path.name) or "model"


def _eos_token_ids(tokenizer: str, loaded: LoadedTokenizer) -> list[int]:
    """Return the EOS ids of generation_config.json, else that of the tokenizer."""
    if Path(tokenizer).exists():
        path = Path(tokenizer)
        snapshot = Snapshot(path if path.is_dir() else path.parent)
        found = EosSources(snapshot, Tokens(snapshot)).generation
        if found:
            return [token_id for token_id, _ in found]
    token = loaded.special_tokens.eos_token
    token_id = None if token is None else loaded.token_to_id(token)
    return [] if token_id is None else [token_id]
