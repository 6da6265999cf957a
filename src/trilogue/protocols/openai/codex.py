"""The catalogue of models in the form of Codex: what it asks for with `GET /models?client_version=…`.

Without an entry, Codex warns that it has no metadata of a model and guesses its context window. An entry must have the
instructions that Codex sends as the start of every conversation.
"""

from __future__ import annotations

from trilogue.model import Json
from trilogue.protocols.endpoint import Wire

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
