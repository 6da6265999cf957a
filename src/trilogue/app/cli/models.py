"""`trilogue models`: show what a model accepts, how that is known, and what was configured or learned about it.

The table of all models (`--markdown`) is part of docs/models.md.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from random import SystemRandom
from typing import Any

import click
import msgspec
from msgspec import Struct

from trilogue.app.cli.configured import CONFIG, read_configuration
from trilogue.app.stores import accounts_file
from trilogue.config.config import Config
from trilogue.errors import ClientError
from trilogue.gateway.request.outbound import instead
from trilogue.model import Protocol
from trilogue.routing.pool.pools import Pools
from trilogue.storage.records import RecordFile
from trilogue.translate.learning.remedies import Remedy
from trilogue.upstreams.build import pools_of, router_of
from trilogue.upstreams.state.sync import load_into, write_now
from trilogue.vendors.common import COMMON_ROWS
from trilogue.vendors.profile import UNKNOWN_VENDOR, Profile, ProfileRow
from trilogue.vendors.profile_lookup import ROWS, profile_for, rows_for, vendor_for
from trilogue.vendors.table import PROFILED, vendor_named


@click.command()
@click.argument("name", required=False, metavar="[PROVIDER/]NAME")
@CONFIG
@click.option(
    "--vendor",
    type=click.Choice([*PROFILED, UNKNOWN_VENDOR]),
    help="Whose API the model is used through; default: that of the configured provider.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per protocol.")
@click.option("--forget", is_flag=True, help="Forget what the gateway has learned about the model.")
@click.option("--markdown", is_flag=True, help="Print the whole table, as in the documentation.")
def models(name: str | None, path: str | None, vendor: str | None, as_json: bool, forget: bool, markdown: bool) -> None:
    """Show what a model accepts, with sources, and what is sent instead.

    \b
    trilogue models gpt-5.4
    trilogue models azure/my-deployment
    trilogue models --vendor groq llama-3.3-70b-versatile
    trilogue models                      # the providers, and whose API each one is
    """
    if markdown:
        click.echo(models_table())
        return
    knowledge = _Knowledge.read(path)
    if not name and forget:
        raise click.UsageError("--forget needs the name of a model")
    if not name:
        click.echo("\n".join(knowledge.overview()))
        return
    if forget:
        click.echo(knowledge.forget(name))
        return
    found = list(knowledge.rules(name, vendor))
    if as_json:
        click.echo("\n".join(json.dumps(rules.as_dict()) for rules in found))
    else:
        click.echo("\n\n".join("\n".join(rules.lines()) for rules in found))


class ModelRules(Struct, kw_only=True):
    """What one model accepts in one protocol."""

    model: str
    provider: str
    vendor: str
    protocol: Protocol
    profile: Profile
    configured: dict[str, Any]
    """fields that the configuration sets"""
    learned: tuple[Remedy, ...]
    """what the upstream has refused, and what is sent instead"""

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain data, for `--json`."""
        rows = rows_for(self.protocol, self.model, self.vendor)
        return {
            "model": self.model,
            "provider": self.provider or None,
            "vendor": self.vendor,
            "protocol": self.protocol.value,
            "takes": msgspec.to_builtins(self.profile),
            "because": [
                {"fields": msgspec.to_builtins(own), "what": row.what, "sure": row.sure, "sources": row.sources}
                for row, own in rows
            ],
            "configured": msgspec.to_builtins(self.configured),
            "learned": msgspec.to_builtins(self.learned),
        }

    def lines(self) -> Iterator[str]:
        """Yield the lines for a terminal."""
        where = f"provider {self.provider}, " if self.provider else ""
        whose = self.vendor if self.vendor != "none" else "unknown: the common core of the protocol"
        yield f"{self.model} in {self.protocol.value} ({where}vendor {whose})"
        for row, own in rows_for(self.protocol, self.model, self.vendor):
            yield f"  {row.what}"
            yield from (f"    {field}: {_for_terminal(value)}{self._changed(field)}" for field, value in own.items())
            sources = ", ".join(row.sources)
            yield f"    {row.sure}, {row.seen}{': ' + sources if sources else ''}"
        yield "  everything else is accepted"
        if self.configured:
            yield "  set in the configuration"
            yield from (f"    {field}: {_for_terminal(value)}" for field, value in self.configured.items())
        if self.learned:
            yield "  refused by the upstream (use --forget to forget it)"
            yield from (f"    {remedy.path}: {instead(remedy)}" for remedy in self.learned)

    def _changed(self, field: str) -> str:
        return "  (overridden by the configuration, see below)" if field in self.configured else ""


class _Knowledge(Struct):
    """The configuration and what gateways have learned about models."""

    config: Config
    pools: Pools | None
    """what was learned, from the state file; None if state is not stored"""
    store: RecordFile | None

    @classmethod
    def read(cls, path: str | None) -> _Knowledge:
        """Load the configuration and the state file. Raises UsageError if the configuration cannot be used."""
        config, file = read_configuration(path)
        if not config.pool.persist:
            return cls(config, None, None)
        pools = pools_of(config, SystemRandom(), config.server.workers)
        store = RecordFile(accounts_file(file))
        load_into(pools, store, time.time())
        return cls(config, pools, store)

    def overview(self) -> Iterator[str]:
        """Yield a line per provider, and one for everything that its models have refused."""
        for name, provider in self.config.providers.items():
            protocols = " and ".join(one.short for one in provider.protocols)
            yield f"{name} ({protocols}): {provider.vendor or 'depends on the model name'}"
            for model, remedies in self.pools.pools[name].lessons.items() if self.pools else ():
                yield from (f"  {model} has refused {remedy.path}: {instead(remedy)}" for remedy in remedies)
        yield f"{len(ROWS)} rows; `trilogue models NAME` shows those of a model, docs/models.md all of them"

    def rules(self, name: str, vendor: str | None) -> Iterator[ModelRules]:
        """Yield what a model accepts in every protocol in which it can be reached."""
        try:
            target = None if vendor else router_of(self.config).resolve(name).targets[0]
        except ClientError:
            target = None
        if target is None:
            yield from _by_name(name, vendor or "")
            return
        provider = self.config.providers[target.provider]
        learned = self.pools.pools[target.provider].lessons.of(target.model) if self.pools else ()
        for protocol in provider.protocols:
            yield ModelRules(
                model=target.model,
                provider=target.provider,
                vendor=vendor_for(protocol, target.model, provider.vendor or ""),
                protocol=protocol,
                profile=provider.profile_for(target.model, protocol),
                configured=provider.profile.overrides(),
                learned=learned,
            )

    def forget(self, name: str) -> str:
        """Forget what a model has refused, in the state file, which running gateways follow. Raises UsageError."""
        try:
            target = router_of(self.config).resolve(name).targets[0]
        except ClientError as error:
            raise click.UsageError(str(error)) from None
        pools, store = self.pools, self.store
        if pools is None or store is None or not pools.pools[target.provider].lessons.forget(target.model):
            raise click.UsageError(f"nothing was learned about {target.provider}/{target.model}")
        write_now(store, pools.drain(), time.time())
        return f"{target.provider}/{target.model} is reset"


def _by_name(name: str, vendor: str) -> Iterator[ModelRules]:
    """Yield what is known by the name alone, in the protocols in which its vendor has rows, or else in all."""
    provider, slash, rest = name.partition("/")
    whose = vendor or (vendor_named(provider) if slash else "")
    model = rest if slash and whose and not vendor else name
    places = [(protocol, vendor_for(protocol, model, whose)) for protocol in Protocol]
    own = [one for one in places if any(row not in COMMON_ROWS for row, _ in rows_for(one[0], model, one[1]))]
    for protocol, vendor_found in own or places:
        yield ModelRules(
            model=model,
            provider="",
            vendor=vendor_found,
            protocol=protocol,
            profile=profile_for(protocol, model, vendor_found),
            configured={},
            learned=(),
        )


def models_table() -> str:
    """Return all rows as Markdown, grouped by vendors and protocols, in the order in which they apply."""
    groups: dict[tuple[str, str], list[ProfileRow]] = {}
    for row in ROWS:
        groups.setdefault((row.vendors, row.protocols), []).append(row)
    return "\n\n".join(_section(vendors, protocols, rows) for (vendors, protocols), rows in groups.items())


def _section(vendors: str, protocols: str, rows: list[ProfileRow]) -> str:
    head = f"### {', '.join(vendors.split())}: {' and '.join(protocols.split())}"
    table = ["| models | what | fields | sure | sources |", "|---|---|---|---|---|", *map(_table_row, rows)]
    return "\n".join([head, "", *table])


def _table_row(row: ProfileRow) -> str:
    pattern = f"`{row.models}`" if row.models else "all"
    fields = ", ".join(f"`{name}: {_for_markdown(value)}`" for name, value in row.takes.items())
    sources = ", ".join(row.sources) or "our own choice"
    cells = (pattern, row.what, fields, f"{row.sure}, {row.seen}", sources)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _for_markdown(value: Any) -> str:
    """Return a value as it is written in the configuration."""
    match msgspec.to_builtins(value):
        case bool(flag):
            return "true" if flag else "false"
        case list(items) | tuple(items):
            return f"[{', '.join(map(str, items))}]"
        case None:
            return "null"
        case other:
            return str(other)


def _for_terminal(value: Any) -> str:
    """Return the value of a field for a terminal."""
    match msgspec.to_builtins(value):
        case bool(flag):
            return "yes" if flag else "no"
        case int(number):
            return f"{number:,}"
        case list(items) | tuple(items):
            return ", ".join(map(str, items)) or "(nothing)"
        case None:
            return "none"
        case other:
            return str(other) or "none"
