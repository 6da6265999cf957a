"""Run a client as a child process that has the terminal to itself, with a gateway next to it.

The child is in the same process group, so the terminal sends Ctrl-C to both: only the child acts on it. Its exit code
becomes ours. Nothing but the child writes to the terminal while it runs.

A client may have to be told what it does not know of a model: the context window and the output limit. The gateway says
it, at `GET /v1/models/MODEL`. A client with a catalogue of its own gets an entry that is like those, with the
instructions that it uses for another model. What cannot be found out is left to the client, which guesses.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import sys
import tempfile
import termios
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import TextIO
from urllib.parse import quote, urlsplit

import click
from msgspec import Struct
from msgspec.structs import replace

from trilogue.app.cli.admin_client import AdminClient, AdminRequestFailed
from trilogue.app.cli.launch_clients import CATALOGUE_FILE, LaunchClient, LaunchSetup, setup_of
from trilogue.app.cli.launch_summary import Summary
from trilogue.app.cli.sockets import NotStarted, listen
from trilogue.app.embed.gateway import EmbeddedGateway
from trilogue.base.json_text import dump, parse_object
from trilogue.base.secrets import Secret
from trilogue.config.config import Config
from trilogue.errors import UpstreamError
from trilogue.gateway.access.settings import ClientKeySettings
from trilogue.gateway.admin.settings import AdminSettings
from trilogue.gateway.endpoints.app import not_http
from trilogue.gateway.gateway import Gateway
from trilogue.gateway.log.settings import Log
from trilogue.gateway.log.setup import configure_logging
from trilogue.gateway.request.failures import next_step
from trilogue.model import Usage
from trilogue.net.server.listener import Listener
from trilogue.protocols.endpoint import Wire
from trilogue.protocols.openai.models import INSTRUCTIONS, catalogue_entry
from trilogue.protocols.registry import DEFAULT
from trilogue.routing.model_names import LONG_CONTEXT, NoRoute
from trilogue.translate.reasoning.seal import Sealer
from trilogue.upstreams.provider import UpstreamProvider

HOST = "127.0.0.1"
DRAIN_SECONDS = 1.0
"""how long requests may go on after the client has ended: nobody reads the responses"""
MAX_LOG_BYTES = 16 * 1024 * 1024
"""size from which the next launch begins a new log"""
REACH_SECONDS = 2.0
"""how long the first connection to an upstream may take, before the client starts"""
SHELL_SIGNAL = 128
"""what shells add to the number of the signal that ended a program"""
_LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})
"""hosts for which no proxy is asked"""
_PROXY_VARIABLES = ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")
_PORTS = {"http": 80, "https": 443}
_TERMINAL_SIGNALS = (signal.SIGINT, signal.SIGQUIT)
_SANE_SCREEN = "\x1b[?25h\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?2004l\x1b[0m"
"""shows the cursor, and ends mouse reports, bracketed paste and colours, after a client that could not do it itself"""
CATALOGUE_SECONDS = 10.0
ASK_SECONDS = 5.0
"""how long the start of a client waits for a gateway that accepts connections and says nothing"""
USUAL_OUTPUT = 32_000
"""the output limit that Claude Code asks for; a lower one is worth telling, a higher one would only reserve more"""
_MADE_FOR = re.compile(r"(?<=agent) based on [A-Za-z]+-\d+(\.\d+)*")
"""the model for which Codex has written its instructions"""


class OwnGateway(Struct, frozen=True, kw_only=True):
    """What the gateway of one client is made from. `log`: the file that it writes its log to."""

    config: Config
    file: Path | None
    sealer: Sealer
    log: Path


async def run_with_gateway(
    own: OwnGateway, client: LaunchClient, models: Mapping[str, str], arguments: tuple[str, ...]
) -> int:
    """Run a client with a gateway for it alone. Return its exit code. Raises NotStarted if there is no such model."""
    with opened_log(own.log) as log:
        configure_logging(Log(level=own.config.server.log.level, format="json"), log)
        key, sock = launch_key(own.sealer), listen(HOST, 0)
        summary = Summary()
        gateway = EmbeddedGateway(private_config(own.config, key), own.file, [summary], own.sealer)
        summary.price = partial(_price, gateway.app.gateway)
        listener = Listener(gateway.app, not_http)
        gateway.forget = listener.forget
        await listener.open(sock)
        await gateway.start()
        try:
            plain = [model.removesuffix(LONG_CONTEXT) for model in models.values()]
            await _check_models(gateway.app.gateway, plain)
            for line in await _unreachable(gateway.app.gateway, plain or [client.usual or ""]):
                click.echo(f"trilogue: {line}", err=True)
            url = f"http://{HOST}:{sock.getsockname()[1]}"
            code = await run_client(client, {"url": url, "key": key, **models}, arguments)
        finally:
            await listener.drain(DRAIN_SECONDS, at_once=True)
            await gateway.stop(DRAIN_SECONDS)
        written = f"; log: {own.log}" if summary.errors and log.name != os.devnull else ""
    click.echo(f"trilogue: {summary}{written}", err=True)
    return code


def launch_key(sealer: Sealer) -> str:
    """Return the client key of launched clients: the same for every launch, so that they find what they have stored."""
    digest = blake2b(sealer.storage_keys[0], digest_size=16, person=b"trilogue-launch").hexdigest()
    return f"trl-launch-{digest}"


def private_config(config: Config, key: str) -> Config:
    """Return the configuration of a gateway that only this client can use, and that has no admin interface."""
    only = ClientKeySettings(key=Secret(key), name="launch", mode=None)
    return replace(config, keys=(only,), admin=AdminSettings(), server=replace(config.server, host=HOST, port=0))


def _price(gateway: Gateway, provider: str, model: str, usage: Usage) -> int | None:
    """Return what usage costs, in billionths of a dollar; None if that is unknown. The built-in model costs nothing."""
    return 0 if gateway.upstreams.providers[provider].is_demo else gateway.upstreams.cost(provider, model, usage)


async def _check_models(gateway: Gateway, models: Sequence[str]) -> None:
    """Raise NotStarted if a model leads nowhere: the client's own error would be harder to read."""
    for model in dict.fromkeys(models):
        try:
            gateway.models.routed(model, DEFAULT)
        except NoRoute as error:
            if await gateway.upstreams.offered(model, DEFAULT) is None:
                raise NotStarted(str(error)) from None


async def _unreachable(gateway: Gateway, models: Sequence[str]) -> list[str]:
    """Return which upstreams of models cannot be reached, and why.

    Clients repeat a failed request for minutes before they show its error, and nothing else may write to the terminal
    then. The connections that can be opened serve the first requests.
    """
    names: dict[str, None] = {}
    for model in models:
        with suppress(NoRoute):
            names |= dict.fromkeys(target.provider for target in gateway.models.routed(model, DEFAULT))
    found = await asyncio.gather(*(_fault(gateway.upstreams.providers[name]) for name in names))
    return [line for line in found if line]


async def _fault(provider: UpstreamProvider) -> str:
    try:
        await provider.reach(REACH_SECONDS)
    except UpstreamError as error:
        step = next_step(error.code)
        return f"{provider.name} cannot be reached: {error}{f' ({step})' if step else ''}"
    return ""


async def run_at_gateway(client: LaunchClient, values: Mapping[str, str], arguments: tuple[str, ...]) -> int:
    """Run a client at a gateway that is running. Return its exit code."""
    if fault := await _gateway_fault(values["url"]):
        click.echo(f"trilogue: the gateway at {values['url']} cannot be reached: {fault}", err=True)
    return await run_client(client, values, arguments)


async def _gateway_fault(url: str) -> str:
    """Return why no connection to a gateway can be opened; "" if one can, or if a proxy may be asked for it."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if host not in _LOCAL_HOSTS and any(os.environ.get(name) for name in _PROXY_VARIABLES):
        return ""
    try:
        async with asyncio.timeout(REACH_SECONDS):
            _, writer = await asyncio.open_connection(host, parts.port or _PORTS[parts.scheme])
    except socket.gaierror:
        return "its name cannot be resolved"
    except TimeoutError:
        return f"no connection in {REACH_SECONDS:g} s"
    except OSError as error:
        return error.strerror or "no connection can be opened"
    writer.close()
    return ""


async def run_client(client: LaunchClient, values: Mapping[str, str], arguments: tuple[str, ...]) -> int:
    """Run a client and return its exit code."""
    with tempfile.TemporaryDirectory(prefix="trilogue-launch-") as folder:
        values = {**values, "dir": folder}
        setup = setup_of(client, {**values, **await model_values(client, values)}, arguments)
        for name, content in setup.files.items():
            path = Path(folder) / name
            path.touch(mode=0o600)
            path.write_text(content, "utf-8")
        with _restored_terminal():
            return await _child(setup)


async def _child(setup: LaunchSetup) -> int:
    environ = {name: value for name, value in os.environ.items() if name not in setup.removed}
    environ |= _direct(environ) | setup.variables
    try:
        process = await asyncio.create_subprocess_exec(*setup.command, env=environ)
    except OSError as error:
        raise NotStarted(f"cannot start {setup.command[0]}: {error.strerror}") from None
    _handle_signals(process)
    code = await process.wait()
    if code < 0 and sys.stdout.isatty():
        click.echo(_SANE_SCREEN, nl=False)
    return code if code >= 0 else SHELL_SIGNAL - code


def _handle_signals(process: asyncio.subprocess.Process) -> None:
    """Pass signals on to the child, except for those that the terminal sends to both."""

    def pass_on(number: int) -> None:
        with suppress(ProcessLookupError):
            process.send_signal(number)

    loop, sent_to_both = asyncio.get_running_loop(), _TERMINAL_SIGNALS if _in_foreground() else ()
    for number in (*_TERMINAL_SIGNALS, signal.SIGTERM, signal.SIGHUP):
        # A handler even where there is nothing to do: the child would inherit SIG_IGN.
        loop.add_signal_handler(number, _ignore if number in sent_to_both else pass_on, number)


def _direct(environ: Mapping[str, str]) -> dict[str, str]:
    """Return variables that keep a proxy of the environment from getting the requests to the gateway."""
    local = f"localhost,{HOST}"
    return {name: f"{environ[name]},{local}" if environ.get(name) else local for name in ("NO_PROXY", "no_proxy")}


def _in_foreground() -> bool:
    """Return whether a terminal sends Ctrl-C to this process and its child."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


@contextmanager
def _restored_terminal() -> Iterator[None]:
    """Give the terminal back as it was: a client that is killed leaves it without echo."""
    try:
        before = termios.tcgetattr(sys.stdin.fileno())
    except (termios.error, OSError, ValueError):
        yield
        return
    try:
        yield
    finally:
        with suppress(termios.error, OSError):
            termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, before)


def opened_log(path: Path) -> TextIO:
    """Open the file for the log, or one that keeps nothing if it cannot be written: the client is what counts.

    It is continued, so that a launch that is refused leaves the log of the one before. A large one is put aside.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if path.is_file() and path.stat().st_size > MAX_LOG_BYTES:
            path.replace(path.with_name(f"{path.name}.1"))
        path.touch(mode=0o600)
        return path.open("a", encoding="utf-8")
    except OSError as error:
        click.echo(f"trilogue: there is no log: cannot write {path}: {error.strerror}", err=True)
        return Path(os.devnull).open("w", encoding="utf-8")


def _ignore(number: int) -> None:
    """Do nothing about a signal that the child gets as well."""


async def model_values(client: LaunchClient, values: Mapping[str, str]) -> dict[str, str]:
    """Return the values of the templates that say something about the model, as far as it is known."""
    if "model" not in values:
        return {}
    model = await asyncio.to_thread(_model, values)
    found: dict[str, str] = {}
    window, output = model.get("context_length"), model.get("max_output_tokens")
    if isinstance(window, int):
        found["window"] = str(window)
    if isinstance(output, int) and output < USUAL_OUTPUT:
        found["output"] = str(output)
    if client.catalogue:
        catalogue = await _catalogue(client, {**model, "id": values["model"]})
        if catalogue:
            found |= {"catalogue": catalogue, "catalogue_file": f"{values['dir']}/{CATALOGUE_FILE}"}
    return found


def _model(values: Mapping[str, str]) -> Wire:
    """Return what the gateway says about the model; nothing if it does not know it."""
    name = values["model"].removesuffix(LONG_CONTEXT)
    with suppress(AdminRequestFailed):
        data = AdminClient(values["url"], values["key"]).read("GET", f"/v1/models/{quote(name)}", seconds=ASK_SECONDS)
        return parse_object(data) or {}
    return {}


async def _catalogue(client: LaunchClient, model: Wire) -> str:
    """Return the client's catalogue with an entry for the model; "" if it has one, or if its catalogue is unknown."""
    try:
        process = await asyncio.create_subprocess_exec(
            client.command,
            *client.catalogue,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError:
        return ""
    try:
        async with asyncio.timeout(CATALOGUE_SECONDS):
            printed, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        return ""
    known = (parse_object(printed.decode(errors="replace")) or {}).get("models")
    entries = [entry for entry in known if isinstance(entry, dict)] if isinstance(known, list) else []
    # Codex ignores a prefix such as `provider/`, and what follows a name that it knows.
    name = str(model["id"]).rpartition("/")[2]
    if not entries or any(name.startswith(str(entry.get("slug"))) for entry in entries):
        return ""
    return dump({"models": [catalogue_entry(model, _instructions(entries)), *entries]}).decode()


def _instructions(entries: list[Wire]) -> str:
    """Return the instructions of the client's last model that the user may choose, which are those for any model."""
    listed = [entry.get("base_instructions") for entry in entries if entry.get("visibility") == "list"]
    texts = [text for text in listed if isinstance(text, str) and text]
    return _MADE_FOR.sub("", texts[-1]) if texts else INSTRUCTIONS
