"""`trilogue launch`: start a client with a gateway for it alone, and say at the end what that has done."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import click
from msgspec import Struct

from trilogue.app.cli.configured import why_unusable
from trilogue.app.cli.launch_clients import CLIENTS, LaunchClient, LaunchSetup, setup_of
from trilogue.app.cli.launch_run import OwnGateway, run_at_gateway, run_with_gateway
from trilogue.app.cli.local_servers import find_local_servers
from trilogue.app.cli.sockets import NotStarted
from trilogue.app.cli.start_message import NO_MODEL, Start, example_model
from trilogue.app.sealing import NoSealKey, stored_sealer
from trilogue.app.stores import unwritable
from trilogue.app.transports import event_loop
from trilogue.base.addresses import url_fault
from trilogue.config.environment import with_dotenv
from trilogue.config.load import find, load
from trilogue.errors import ClientError, ConfigError
from trilogue.storage.locations import state_directory
from trilogue.upstreams.build import router_of

LOG_FILE = "launch.log"
NO_KEY = "none-needed"
SHOWN_KEY = "$TRILOGUE_KEY"


class LaunchOptions(Struct, frozen=True, kw_only=True):
    """The options of the command line."""

    model: str | None
    small: str | None
    config: str | None
    gateway: str | None
    log: str | None


@click.command()
@click.argument("client", required=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option("--model", help="Model that the client uses; default: the only one there is, or the client's own.")
@click.option("--small-model", "small", metavar="MODEL", help="Model for small background tasks; default: --model.")
@click.option(
    "--config",
    metavar="FILE",
    help="Configuration file; default: ./trilogue.yaml, then the one in the user's config folder.",
)
@click.option("--gateway", metavar="URL", help="Use a running gateway, with the key in TRILOGUE_KEY if it needs one.")
@click.option("--log", metavar="FILE", help="Where the gateway logs; default: launch.log in the state folder.")
@click.option("--print", "show", is_flag=True, help="Print what would be set and run, and start nothing.")
def launch(client: str | None, arguments: tuple[str, ...], show: bool, **options: str | None) -> None:
    """Start a CLIENT with a gateway for it alone, on any model that the gateway serves.

    Arguments after `--` go to the client. Nothing is written into the client's own files. When it ends, one line says
    how many requests, tokens, errors and losses there were. Without a CLIENT, the known ones are listed.

    \b
    trilogue launch claude --model deepseek/deepseek-chat
    trilogue launch codex -- exec "Fix the test"
    trilogue launch run -- python my_agent.py
    """
    if client is None:
        click.echo(_overview())
        return
    row = CLIENTS.get(client)
    if row is None:
        raise NotStarted(
            f"there is no client {client!r}, only {', '.join(CLIENTS)}; for others: trilogue launch run -- PROGRAM"
        )
    chosen = LaunchOptions(**options)
    _check(row, chosen, arguments, show=show)
    if chosen.gateway is not None:
        address = chosen.gateway.rstrip("/").removesuffix("/v1")
        values = {"url": address, "key": os.environ.get("TRILOGUE_KEY") or NO_KEY, **_models(chosen, chosen.model)}
        if show:
            _show(row, values, arguments)
        else:
            sys.exit(event_loop()(run_at_gateway(row, values, arguments)))
    else:
        _with_own_gateway(row, chosen, arguments, show=show)


def _check(row: LaunchClient, options: LaunchOptions, arguments: tuple[str, ...], *, show: bool) -> None:
    """Raise NotStarted if the program is missing or the options make no sense."""
    if not row.command and not arguments:
        raise NotStarted("name the program after --: trilogue launch run -- PROGRAM")
    program = row.command or arguments[0]
    if not show and shutil.which(program) is None:
        hint = f"; install it with: {row.install}" if row.install else ""
        raise NotStarted(f"{program} is not installed, or not on the PATH{hint}")
    if options.gateway is None:
        return
    fault = url_fault(options.gateway)
    if fault:
        raise NotStarted(f"--gateway {fault}")
    if options.model is None and not row.usual:
        raise NotStarted(f"{row.name} needs a model: add --model NAME")


def _with_own_gateway(row: LaunchClient, options: LaunchOptions, arguments: tuple[str, ...], *, show: bool) -> None:
    file = find(Path(options.config) if options.config else None)
    environ = with_dotenv(os.environ, file)
    servers = find_local_servers(environ) if file is None else []
    try:
        config = load(file, environ, servers={server.name: (server.preset, server.url) for server in servers})
    except ConfigError as error:
        raise NotStarted(why_unusable(file, error)) from None
    models = _models(options, options.model or _chosen_model(Start(config, 0, file, servers), row))
    if show:
        _show(row, {"url": "http://127.0.0.1:PORT", "key": SHOWN_KEY, **models}, arguments)
        return
    try:
        sealer, problem = stored_sealer(config)
    except NoSealKey as error:
        raise NotStarted(f"state: {error}") from None
    folder = state_directory(os.environ)
    log = Path(options.log) if options.log else folder / LOG_FILE
    if reason := unwritable(folder):
        click.echo(f"trilogue: the state folder {folder} cannot be written ({reason}): nothing is kept there", err=True)
        log = Path(options.log or os.devnull)
    elif problem:
        click.echo(f"trilogue: {problem}", err=True)
    gateway = OwnGateway(config=config, file=file, sealer=sealer, log=log)
    sys.exit(event_loop()(run_with_gateway(gateway, row, models, arguments)))


def _chosen_model(start: Start, row: LaunchClient) -> str | None:
    """Return a model for a client; None if its own choice is served. Raises NotStarted if no model is known."""
    router = router_of(start.config)
    only = router.only_model()
    if only is not None:
        return only
    with suppress(ClientError):
        if row.usual:
            router.resolve(row.usual)
            return None
    model = example_model(start)
    if model == NO_MODEL:
        raise NotStarted(f"which model? Add --model NAME; served: {', '.join(router.served())}")
    click.echo(f"trilogue: {row.name} gets the model {model}; choose another one with --model", err=True)
    return model


def _models(options: LaunchOptions, model: str | None) -> dict[str, str]:
    """Return the values of the templates for models, as far as there are any."""
    small = options.small or model
    named = {"model": model, "small": small}
    return {name: value for name, value in named.items() if value is not None}


def _show(row: LaunchClient, values: Mapping[str, str], arguments: tuple[str, ...]) -> None:
    """Print what would be set and run. The key is not shown."""
    shown = {**values, "key": values["key"] if values["key"] == NO_KEY else SHOWN_KEY, "dir": "DIR"}
    click.echo(described(setup_of(row, shown, arguments)))


def described(setup: LaunchSetup) -> str:
    """Return what is set and run, in the words of a shell."""
    lines = [f"unset {name}" for name in setup.removed]
    lines += [f"export {name}={_quoted(value)}" for name, value in setup.variables.items()]
    lines += [f"# DIR/{name}: {content}" for name, content in setup.files.items()]
    return "\n".join([*lines, " ".join(map(_quoted, setup.command))])


def _quoted(text: str) -> str:
    return text if text in (SHOWN_KEY, f"DIR/{text.removeprefix('DIR/')}") else shlex.quote(text)


def _overview() -> str:
    """Return the list of clients, and which are installed."""
    lines = []
    for row in CLIENTS.values():
        found = not row.command or shutil.which(row.command) is not None
        what = row.command or "any program: trilogue launch run -- PROGRAM"
        lines.append(f"  {row.name:<10} {what}" + ("" if found else f"  (not installed: {row.install})"))
    return "\n".join(["Clients, for trilogue launch CLIENT [--model MODEL] [-- ARGUMENTS]:", *lines])
