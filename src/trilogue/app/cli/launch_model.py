"""What a client has to know of a model that it does not know itself: the context window and the output limit.

The gateway says it, at `GET /v1/models/MODEL`. A client with a catalogue of its own gets an entry that is like those,
with the instructions that it uses for another model. What cannot be found out is left to the client, which guesses.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import quote

from trilogue.app.cli.admin_client import AdminClient, AdminError
from trilogue.app.cli.launch_clients import CATALOGUE_FILE, LaunchClient
from trilogue.base.json.text import dump, parse_object
from trilogue.protocols.endpoint import Wire
from trilogue.protocols.openai.codex import INSTRUCTIONS, catalogue_entry
from trilogue.routing.model_names import LONG_CONTEXT

SECONDS = 10.0
ASK_SECONDS = 5.0
"""how long the start of a client waits for a gateway that accepts connections and says nothing"""
USUAL_OUTPUT = 32_000
"""the output limit that Claude Code asks for; a lower one is worth telling, a higher one would only reserve more"""
_MADE_FOR = re.compile(r"(?<=agent) based on [A-Za-z]+-\d+(\.\d+)*")
"""the model for which Codex has written its instructions"""


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
    with suppress(AdminError):
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
        async with asyncio.timeout(SECONDS):
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
