"""``streamdec serve``: serve OpenAI's API for an engine, or for a replayed text."""

from __future__ import annotations

import ipaddress
import math
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from streamdec.cli.loading import Loader, data_file, loading_options
from streamdec.cli.progress import say
from streamdec.cli.shared_options import UserPath, collected, unknown_ids_option
from streamdec.cli.statuses import DONE, INTERRUPTED, CannotBeginError
from streamdec.cli.stop_options import markers_option
from streamdec.core.conditions import pairs_of
from streamdec.core.decode_options import UnknownIds
from streamdec.preflight.snapshot import open_snapshot
from streamdec.preflight.snapshot_tokens import Tokens
from streamdec.preflight.stop_tokens import EosSources
from streamdec.server.engines import Engine, ReplayEngine, load_engine
from streamdec.server.limits import ServerLimits
from streamdec.server.names import HOST, check_hosts, check_origins
from streamdec.tokenizers.tokenizer_report import LoadedTokenizer

VARIABLE = "STREAMDEC_API_KEY"
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_DEFAULTS = ServerLimits()
_LIMITS = {
    "body_bytes": "Maximum size of a request, in bytes.",
    "bodies_bytes": (
        "Maximum size, in bytes, of all requests of 32 KiB or more whose answers have not begun."
    ),
    "values": "Maximum number of strings, lists and objects in a request.",
    "messages": "Maximum number of messages in a request.",
    "message_characters": "Maximum number of characters in a message, as JSON.",
    "stops": "Maximum number of stop strings, and of stop ids, in a request.",
    "stop_characters": "Maximum number of characters in a stop string.",
    "samples": "Maximum number of streams of a request: prompts times n.",
    "prompt_tokens": "Maximum number of tokens in a prompt.",
    "max_tokens": "Maximum number of tokens in an answer.",
    "default_max_tokens": (
        "Maximum number of tokens in an answer if a request has no limit. The default is that of "
        "--limit-max-tokens."
    ),
    "concurrent": "Maximum number of streams that run at once.",
    "waiting": (
        "Maximum number of requests that wait for a free stream. More requests get status 429."
    ),
    "key_concurrent": "Maximum number of requests of one API key at once.",
    "key_requests": "Maximum number of requests of one API key in a minute.",
    "key_tokens": "Maximum number of tokens of one API key in a minute, of prompts and answers.",
}
"""Limits that have an option, and its help."""


def _limit_option(name: str, help_text: str) -> Callable[..., Any]:
    default = getattr(_DEFAULTS, name)
    return click.option(
        f"--limit-{name.replace('_', '-')}",
        name,
        type=click.IntRange(min=0 if name == "waiting" else 1),
        default=default,
        show_default=default is not None,
        metavar="N",
        help=help_text,
    )


def _limits(values: dict[str, Any]) -> ServerLimits:
    default, most = values["default_max_tokens"], values["max_tokens"]
    if default is not None and default > most:
        problem = f"{default} is more than --limit-max-tokens {most}"
        raise click.BadParameter(problem, param_hint="'--limit-default-max-tokens'")
    return ServerLimits(**values)


_limits_options = collected(
    {name: _limit_option(name, help_text) for name, help_text in _LIMITS.items()},
    "limits",
    _limits,
)
"""Gives a command the options of limits; it receives them as ``limits``."""


def _check_keys(
    _context: click.Context, _option: click.Parameter, keys: tuple[str, ...]
) -> tuple[str, ...]:
    if any(re.fullmatch(r"[!-~]+", key) is None for key in keys):
        raise click.BadParameter("a key must be printable ASCII without spaces, and not empty")
    return keys


def _check_finite(_context: click.Context, _option: click.Parameter, value: float) -> float:
    if not math.isfinite(value):
        raise click.BadParameter(f"{value} is not finite")
    return value


def _checked_by(check: Callable[[tuple[str, ...]], None]) -> Callable[..., tuple[str, ...]]:
    """Return a callback whose error names the option."""

    def checked(
        _context: click.Context, _option: click.Parameter, values: tuple[str, ...]
    ) -> tuple[str, ...]:
        values = tuple(value.lower() for value in values)
        try:
            check(values)
        except ValueError as error:
            raise click.BadParameter(str(error)) from error
        return values

    return checked


def _check_names(
    _context: click.Context, _option: click.Parameter, names: tuple[str, ...]
) -> tuple[str, ...]:
    if not all(name.isprintable() and name.strip() for name in names):
        raise click.BadParameter("a name must be printable, and not empty")
    return names


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
    callback=_check_finite,
    default=40,
    show_default=True,
    help="Tokens per second of the replay; 0 is as fast as possible.",
)
@click.option(
    "--model",
    "names",
    multiple=True,
    metavar="NAME",
    callback=_check_names,
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
    callback=_check_keys,
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
    "--allow-request-templates",
    is_flag=True,
    help="Accept chat templates in requests, and render them in a separate process.",
)
@click.option(
    "--isolate-templates",
    is_flag=True,
    help="Render the model's own chat template in a separate process, too.",
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
    "Ignore the stops of requests in the model's reasoning, which is between these two texts, "
    r"such as '<think>' '</think>'; may be repeated. \n, \t and \uXXXX are read as escapes, and \\ "
    "as a backslash.",
)
@click.option(
    "--separate-reasoning",
    is_flag=True,
    help="Send the text between the --reasoning-markers separately, without the markers: as "
    "reasoning_content of chats, reasoning items of responses, and thinking blocks of messages.",
)
@unknown_ids_option
@click.option(
    "--allow-origin",
    "allow_origins",
    multiple=True,
    metavar="ORIGIN",
    callback=_checked_by(check_origins),
    help="Accept requests of web pages of this origin (CORS), such as https://app.example.com; may "
    "be repeated. * is all origins.",
)
@click.option(
    "--allow-host",
    "allow_hosts",
    multiple=True,
    metavar="NAME",
    callback=_checked_by(check_hosts),
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
    type=click.FloatRange(min=0),
    callback=_check_finite,
    default=30,
    show_default=True,
    metavar="SECONDS",
    help="How long streams may continue after SIGTERM or Ctrl-C before they are aborted.",
)
@click.option("--access-log", is_flag=True, help="Log each request: its path and its status.")
@_limits_options
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
    allow_request_templates: bool,
    isolate_templates: bool,
    eos_token_ids: tuple[int, ...],
    reasoning_markers: tuple[tuple[str, str], ...],
    separate_reasoning: bool,
    unknown_ids: UnknownIds,
    allow_origins: tuple[str, ...],
    allow_hosts: tuple[str, ...],
    page: bool | None,
    grace: float,
    access_log: bool,
    limits: ServerLimits,
) -> None:
    """Serve OpenAI's API over an engine that turns prompt ids into token ids.

    The engine is your callable. Without --engine, a text is replayed, so that you can try the
    command. The paths are /v1/completions, /v1/chat/completions, /v1/responses,
    /v1/responses/input_tokens, /v1/messages (Anthropic's), /v1/messages/count_tokens, /v1/models,
    /tokenize, /detokenize, /openapi.json, /metrics (with prometheus_client), /health, /ready,
    /live, /ping, /version and, with --page, /.

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
    if separate_reasoning and not reasoning_markers:
        raise click.UsageError("--separate-reasoning needs --reasoning-markers")
    if limits.has_key_limits and not api_keys:
        raise click.UsageError("--limit-key-* needs --api-key")
    try:
        pairs_of("--reasoning-markers", reasoning_markers)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    options = {} if chat_template is None else {"chat_template": chat_template}
    loaded: LoadedTokenizer
    if tokenizer is not None:
        loaded = load(tokenizer, **options)
    else:
        loaded = load(str(data_file("demo_tokenizer.json")), **options)
    eos = eos_token_ids or tuple(_eos_token_ids(tokenizer, loaded))
    application = server.create_app(
        loaded,
        _engine(engine_name, loaded, text, rate),
        models=names or (_name_of(tokenizer),),
        limits=limits,
        eos_token_ids=eos,
        reasoning_markers=reasoning_markers,
        separate_reasoning=separate_reasoning,
        api_keys=api_keys,
        hosts=_hosts(host, allow_hosts),
        allow_origins=allow_origins,
        allow_request_templates=allow_request_templates,
        isolate_templates=isolate_templates,
        unknown_ids=unknown_ids,
        simple_template=tokenizer is None and chat_template is None,
        page=engine_name is None if page is None else page,
    )

    if not api_keys and not _is_loopback(host):
        say(f"Warning: anyone who can reach {host} can use the server. Set {VARIABLE}.")

    def started(url: str) -> None:
        say(f"Serving on {url} (Ctrl-C ends it)")

    ended = server.serve(
        application, host=host, port=port, grace=grace, access_log=access_log, on_start=started
    )
    click.get_current_context().exit(INTERRUPTED if ended == signal.SIGINT else DONE)


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


def _hosts(host: str, allowed: tuple[str, ...]) -> set[str] | None:
    """Return the names to accept in the Host header; None for all."""
    if not allowed and not _is_loopback(host):
        return None
    address, *_zone = host.split("%")  # clients leave the zone out of the header
    own = f"[{address}]" if ":" in address else host
    names = {*LOOPBACK, *(each.lower() for each in (own, *allowed))}
    return {name for name in names if HOST.fullmatch(name)}  # host may be empty, which is any


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
