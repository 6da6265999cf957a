"""What `trilogue serve` prints at the start: what it serves, a request to try per protocol, and settings for clients.

Everything that is printed works when it is pasted: the address, a key that is accepted, and a model that exists.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from shlex import quote

from msgspec import Struct

from trilogue.app.cli.local_servers import LocalServer
from trilogue.app.cli.sockets import reachable
from trilogue.app.cli.tables import counted
from trilogue.base.secrets import Secret
from trilogue.config.config import Config
from trilogue.errors import ClientError
from trilogue.upstreams.build import router_of
from trilogue.vendors.table import PRESETS

NAME = "trilogue"
NO_MODEL = "MODEL"
"""where no model is known: `GET /v1/models` lists them"""


class Start(Struct, frozen=True):
    """What is known when the gateway starts. `servers`: those that were found on this machine.

    `console`: a line that says where the console is.
    """

    config: Config
    port: int
    file: Path | None = None
    servers: Sequence[LocalServer] = ()
    console: str = ""


class KeyHint(Struct, frozen=True):
    """How to pass a client key: in a shell, in Python, and as the variable that holds it."""

    shell: str
    python: str
    variable: str = ""


def welcome(start: Start) -> str:
    """Return the whole text."""
    config, model = start.config, example_model(start)
    url = f"http://{reachable(config.server.host)}:{start.port}"
    key = key_hint(config.keys[0].key if config.keys else None)
    auth = f' -H "authorization: Bearer {key.shell}"' if config.keys else ""
    return "\n".join(
        [
            f"Trilogue listens on {url} and serves {_providers(config)}.",
            *_origins(start),
            *([start.console] if start.console else []),
            *(
                [f"MODEL stands for one of the models that curl {url}/v1/models{auth} lists."]
                if model == NO_MODEL
                else []
            ),
            "",
            "Try it, with one request per protocol:",
            f"  curl -N {url}/v1/chat/completions -H 'content-type: application/json'{auth} \\",
            f'    -d \'{{"model":"{model}","stream":true,"messages":[{{"role":"user","content":"Hello"}}]}}\'',
            f"  curl -N {url}/v1/messages -H 'content-type: application/json'{auth} \\",
            f'    -d \'{{"model":"{model}","max_tokens":200,"stream":true,'
            '"messages":[{"role":"user","content":"Think, then answer"}]}\'',
            f"  curl -N {url}/v1/responses -H 'content-type: application/json'{auth} \\",
            f'    -d \'{{"model":"{model}","stream":true,"input":"Search for something"}}\'',
            "",
            *_clients(url, model, key),
            *_explain(start),
            "",
            "Stop with Ctrl-C.",
        ]
    )


def _clients(url: str, model: str, key: KeyHint) -> Iterator[str]:
    """Yield the settings of clients."""
    yield "Claude Code:"
    yield f"  ANTHROPIC_BASE_URL={url} ANTHROPIC_AUTH_TOKEN={key.shell} ANTHROPIC_MODEL={model} \\"
    yield f"    ANTHROPIC_DEFAULT_HAIKU_MODEL={model} claude"
    yield "Codex (~/.codex/config.toml):"
    yield f'  model = "{model}"'
    yield '  model_provider = "trilogue"'
    yield "  [model_providers.trilogue]"
    yield '  name = "Trilogue"'
    yield f'  base_url = "{url}/v1"'
    yield '  wire_api = "responses"'
    if key.variable:
        yield f'  env_key = "{key.variable}"'
    yield "OpenAI SDK:"
    yield f'  OpenAI(base_url="{url}/v1", api_key={key.python})'
    yield "Anthropic SDK:"
    yield f'  Anthropic(base_url="{url}", api_key={key.python})'


def _explain(start: Start) -> Iterator[str]:
    """Yield how to see what happened to a request, if the admin interface is on."""
    if start.config.admin.admits_somebody:
        yield ""
        yield "See what happened to the last request:"
        yield f"  {own_command()} explain{f' --config {quote(str(start.file))}' if start.file is not None else ''}"


def own_command() -> str:
    """Return what to type for the command that runs now: its name if the shell finds it by that, or else its path."""
    started = Path(sys.argv[0])
    script = started if started.name == NAME else Path(sys.executable).with_name(NAME)
    found = shutil.which(NAME)
    if not script.is_file() or (found is not None and script.samefile(found)):
        return NAME
    return quote(str(script))


def _providers(config: Config) -> str:
    return ", ".join(
        f"{name} ({_listed([one.short for one in provider.protocols])})" for name, provider in config.served.items()
    )


def _listed(words: Sequence[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def _origins(start: Start) -> Iterator[str]:
    """Yield where the providers come from, and which are left out."""
    if start.file is not None:
        yield f"Configuration: {start.file}"
    for server in start.servers:
        more = f" and {counted(len(server.models) - 1, 'other model')}" if len(server.models) > 1 else ""
        yield f"Found {server.preset} at {server.url} with {server.example}{more}."
    if start.file is None:
        named = [PRESETS[one.preset].variable for one in start.config.served.values() if one.accounts and one.preset]
        if named:
            yield f"Keys from the environment: {', '.join(dict.fromkeys(named))}."
    for name, provider in start.config.providers.items():
        if provider.absence:
            yield f"Left out: {name}, because {provider.absence}."


def key_hint(key: Secret | None) -> KeyHint:
    """Return how to pass a client key without showing it."""
    if key is None:
        return KeyHint("none-needed", '"none-needed"')
    scheme, _, rest = key.reference.partition(":")
    if scheme == "env":
        return KeyHint(f"${rest}", f'os.environ["{rest}"]', rest)
    if scheme == "file":
        return KeyHint(f'"$(cat {rest})"', f'open("{rest}").read().strip()', "TRILOGUE_KEY")
    return KeyHint("YOUR-KEY", '"YOUR-KEY"', "TRILOGUE_KEY")


def example_model(start: Start) -> str:
    """Return a model that the gateway serves: of the configuration, a server on this machine, a vendor, the demo."""
    config = start.config
    router = router_of(config)
    for name in _candidates(start):
        try:
            router.resolve(name)
        except ClientError:
            continue
        return name
    return NO_MODEL


def _candidates(start: Start) -> Iterator[str]:
    config = start.config
    yield from config.aliases
    yield from (f"{name}/{one.models[0]}" for name, one in config.served.items() if one.models)
    yield from (f"{server.name}/{server.example}" for server in start.servers)
    for name, provider in config.served.items():
        if provider.preset and PRESETS[provider.preset].model:
            yield f"{name}/{PRESETS[provider.preset].model}"
    yield from ("demo" for provider in config.served.values() if provider.is_demo)
