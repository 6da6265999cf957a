"""Lists of models in OpenAI's form, which Chat and Responses share, and in that of Codex.

Codex asks for its own form with `GET /models?client_version=…`. Without an entry, it warns that it has no metadata of a
model and guesses its context window. An entry must have the instructions that Codex sends as the start of every
conversation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trilogue.model import Json
from trilogue.protocols.endpoint import LimitHeaders, ListedModel, Models, Wire
from trilogue.protocols.openai.errors import FAMILY

VERSION_FIELD = "client_version"
"""the parameter of a query by which Codex asks for its own form"""
GUESSED_WINDOW = 272_000
"""the context window that Codex assumes of a model that it does not know"""
INSTRUCTIONS = """\
You are a coding agent running in Codex, a terminal-based coding assistant.
You and the user share one workspace. Be precise, safe and helpful.

- Work on the task until it is completely solved, then end your turn. Do not guess: look at files and run commands.
- Search with `rg` and `rg --files` where they are there. Read before you write, and follow AGENTS.md files.
- Fix the cause of a problem, not its symptoms. Keep changes small and in the style of the code around them.
- Never revert changes that you have not made. Run destructive commands only if the user has asked for them.
- Validate your work with the tests and builds of the project, as far as they exist.
- Before you use tools, say in a sentence what you are about to do. For larger tasks, keep a plan up to date.
- Your last message says what you have done and where, briefly, with paths as inline code.
"""


def decode_models(body: Wire) -> list[tuple[str, Wire, float | None]] | None:
    """Return the models of an upstream's list; None if it is not a list."""
    entries = body.get("data")
    if not isinstance(entries, list):
        return None
    return [
        (entry["id"], entry, _seconds(entry.get("created")))
        for entry in entries
        if isinstance(entry, dict) and isinstance(entry.get("id"), str)
    ]


def _seconds(created: Json) -> float | None:
    try:
        return float(str(created))
    except ValueError:
        return None


def encode_models(models: Sequence[ListedModel], query: Mapping[str, str]) -> Wire:
    """Return the list for a client, or for Codex the catalogue in its own form. OpenAI has no pages."""
    if VERSION_FIELD in query:
        listed = [encode_model(model) for model in models]
        return {"models": [catalogue_entry(one, priority=place) for place, one in enumerate(listed, 1)]}
    return {"object": "list", "data": [encode_model(model) for model in models]}


def encode_model(model: ListedModel) -> Wire:
    """Return one model, with the other fields of an upstream that has the same form (a context length, a price)."""
    ours: Wire = {"id": model.id, "object": "model", "created": int(model.created or 0), "owned_by": model.owner}
    ours |= _known(model)
    if model.protocol is not None and model.protocol.traits.family == FAMILY:
        return {**ours, "created": 0, **model.native, "id": model.id}
    return ours


LIMIT_HEADERS = LimitHeaders(
    limit="x-ratelimit-limit-{}", remaining="x-ratelimit-remaining-{}", reset="x-ratelimit-reset-{}"
)
"""how OpenAI's APIs tell clients their limits"""


def _known(model: ListedModel) -> Wire:
    """Return what is known of a model, under the names that OpenRouter and others use. OpenAI's own API has none."""
    facts = model.facts
    named: Wire = {
        "context_length": model.context_window,
        "max_output_tokens": facts.output_limit,
        "input_modalities": [*facts.modalities] if facts.modalities else None,
        "reasoning": facts.reasons,
        "reasoning_efforts": None if facts.efforts is None else [*facts.efforts],
    }
    return {name: value for name, value in named.items() if value is not None}


MODELS = Models(decode=decode_models, encode=encode_models, encode_one=encode_model)


def catalogue_entry(model: Wire, instructions: str = INSTRUCTIONS, *, priority: int = 1) -> Wire:
    """Return the entry of a model, which is in the form that OpenAI's lists have here."""
    efforts = model.get("reasoning_efforts")
    levels: list[Json] = [{"effort": level, "description": level} for level in efforts] if efforts else []
    entry: Wire = {
        "slug": model["id"],
        "display_name": model["id"],
        "supported_reasoning_levels": levels,
        "shell_type": "unified_exec",
        "visibility": "list",
        "supported_in_api": True,
        "priority": priority,
        "support_verbosity": False,
        "truncation_policy": {"mode": "bytes", "limit": 10_000},
        "experimental_supported_tools": [],
        "context_window": model.get("context_length") or GUESSED_WINDOW,
        "base_instructions": instructions,
    }
    if efforts and "medium" in efforts:
        entry["default_reasoning_level"] = "medium"
    if model.get("input_modalities"):
        entry["input_modalities"] = model["input_modalities"]
    return entry
