"""Find model servers on this machine: ask the usual ports on loopback for their models, all at once, for a moment.

This is done once, when the gateway starts without a configuration file. A port counts only if it responds with a list
of models in OpenAI's form; other gateways of ours refuse, because a circle would be the result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct

from trilogue.upstreams.headers import HOPS, MOST_HOPS
from trilogue.vendors.table import PRESETS

VARIABLE = "TRILOGUE_LOCAL_SERVERS"
"""the variable that says where to look: `none`, or pairs such as `ollama=11434,vllm=8001`"""
SECONDS = 0.25
"""how long all servers together may take to respond: the start waits for them"""
MAX_BYTES = 1024 * 1024

_NONE = frozenset({"none", "off", "no", "0", "false"})
_HOST = "127.0.0.1"


class LocalServer(Struct, frozen=True):
    """A server that was found. `name`: that of its provider. `models`: as it lists them."""

    name: str
    preset: str
    port: int
    models: tuple[str, ...]

    @property
    def url(self) -> str:
        """Its base URL."""
        return f"http://{_HOST}:{self.port}"

    @property
    def example(self) -> str:
        """A model to try: the first that is not for embeddings."""
        return next((model for model in self.models if "embed" not in model.lower()), self.models[0])


class _Model(Struct):
    id: str
    owned_by: str = ""


class _Models(Struct):
    data: list[_Model]


_decode_models = msgspec.json.Decoder(_Models).decode


def find_local_servers(environ: Mapping[str, str], *, without: Iterable[int] = ()) -> list[LocalServer]:
    """Return the servers that respond. `without`: ports that are not asked, because the gateway listens there."""
    asked = {port: preset for port, preset in usual_ports(environ).items() if port not in set(without)}
    if not asked:
        return []
    lists = asyncio.run(_ask_all(list(asked)))
    found: list[LocalServer] = []
    for (port, preset), models in zip(asked.items(), lists, strict=True):
        if models:
            kind = _kind(models, preset)
            taken = any(server.name == kind for server in found)
            name = f"{kind}-{port}" if taken else kind
            found.append(LocalServer(name, kind, port, tuple(model.id for model in models)))
    return found


def usual_ports(environ: Mapping[str, str]) -> dict[int, str]:
    """Return the ports to ask, with the preset of the server that is usually there."""
    given = environ.get(VARIABLE, "").strip().lower()
    if not given:
        return {preset.port: name for name, preset in PRESETS.items() if preset.port}
    if given in _NONE:
        return {}
    pairs = (pair.partition("=") for pair in given.split(","))
    return {int(port): name.strip() for name, _, port in pairs if port.strip().isdecimal() and _is_local(name.strip())}


def _is_local(preset: str) -> bool:
    return preset in PRESETS and bool(PRESETS[preset].port)


def _kind(models: Sequence[_Model], preset: str) -> str:
    """Return the preset of a server by what it says about itself: another one may use the port."""
    said = models[0].owned_by
    return next((name for name, one in PRESETS.items() if one.owned_by and one.owned_by == said), preset)


async def _ask_all(ports: Sequence[int]) -> list[list[_Model]]:
    """Return the models of each port; none for a port without a server, or one that takes too long."""
    tasks = [asyncio.create_task(_ask(port)) for port in ports]
    done, late = await asyncio.wait(tasks, timeout=SECONDS)
    for task in late:
        task.cancel()
    await asyncio.gather(*late, return_exceptions=True)
    return [task.result() if task in done else [] for task in tasks]


async def _ask(port: int) -> list[_Model]:
    try:
        reader, writer = await asyncio.open_connection(_HOST, port)
    except OSError:
        return []
    try:
        # HTTP/1.0: the response ends with the connection and is not in chunks.
        writer.write(
            f"GET /v1/models HTTP/1.0\r\nhost: {_HOST}:{port}\r\naccept: application/json\r\n"
            f"{HOPS}: {MOST_HOPS}\r\n\r\n".encode()
        )
        head, _, body = (await _read_all(reader)).partition(b"\r\n\r\n")
        return _decode_models(body).data if head.split(b" ", 2)[1:2] == [b"200"] else []
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return []
    finally:
        writer.close()


async def _read_all(reader: asyncio.StreamReader) -> bytes:
    """Return everything up to the end of the connection, or nothing if it is too much."""
    data = b""
    while piece := await reader.read(65_536):
        data += piece
        if len(data) > MAX_BYTES:
            return b""
    return data
