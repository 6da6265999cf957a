"""The clients that `trilogue launch` starts: one row each, with all that makes a client use the gateway.

In templates, `$url` is the address of the gateway without `/v1`, `$key` the client key, `$model` and `$small` are the
models, and `$dir` is a temporary folder with the row's files. `$window` is the model's context window, `$output` its
output limit if that is low, and `$catalogue` what a client with a catalogue needs to know of it. Variables and
arguments without a value are left out: without a model, the client asks for the one that it would ask for anyway.
"""

from __future__ import annotations

from collections.abc import Mapping
from string import Template
from typing import Any

import msgspec
from msgspec import Struct

Content = Any
"""JSON with templates in its keys and texts"""


class LaunchClient(Struct, frozen=True, kw_only=True):
    """One client."""

    name: str
    command: str
    """the program; empty if the user names it"""
    install: str
    """the command that installs it"""
    variables: dict[str, Content]
    """environment variables: texts, or JSON that is written as one"""
    removed: tuple[str, ...] = ()
    """variables that would lead the client elsewhere"""
    arguments: tuple[tuple[str, ...], ...] = ()
    """arguments before those of the user, in groups that belong together"""
    files: dict[str, Content] = {}
    """files in the temporary folder, as JSON"""
    catalogue: tuple[str, ...] = ()
    """the arguments that print the models which it knows, if it can be given entries of others"""
    usual: str = ""
    """a model that it asks for by itself; empty if it must be told one"""


CATALOGUE_FILE = "catalogue.json"
_ENV_KEY = {"TRILOGUE_KEY": "$key"}
_CLAUDE = {
    "ANTHROPIC_BASE_URL": "$url",
    "ANTHROPIC_AUTH_TOKEN": "$key",
    "ANTHROPIC_MODEL": "$model",
    "ANTHROPIC_DEFAULT_OPUS_MODEL": "$model",
    "ANTHROPIC_DEFAULT_SONNET_MODEL": "$model",
    "ANTHROPIC_DEFAULT_HAIKU_MODEL": "$small",
    # For names that it does not know, Claude Code assumes a context window of a million tokens.
    "CLAUDE_CODE_MAX_CONTEXT_TOKENS": "$window",
    "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "$output",
    # The line with a hash of the first message would make every session pay its system prompt and tools anew.
    "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
}
_CODEX = '{name="Trilogue",base_url="$url/v1",wire_api="responses",env_key="TRILOGUE_KEY"}'

_ALL = (
    LaunchClient(
        name="claude",
        command="claude",
        install="npm install -g @anthropic-ai/claude-code",
        variables=_CLAUDE,
        removed=(
            "ANTHROPIC_API_KEY",
            "CLAUDE_CODE_USE_BEDROCK",
            "CLAUDE_CODE_USE_VERTEX",
            "CLAUDE_CODE_USE_FOUNDRY",
        ),
        # Variables in the user's own settings file win over the environment, and these win over those.
        arguments=(("--settings", "$dir/settings.json"),),
        files={"settings.json": {"env": {**_CLAUDE, "ANTHROPIC_API_KEY": ""}}},
        usual="claude-sonnet-5",
    ),
    LaunchClient(
        name="codex",
        command="codex",
        install="npm install -g @openai/codex",
        variables=_ENV_KEY,
        arguments=(
            ("-c", 'model_provider="trilogue"'),
            ("-c", f"model_providers.trilogue={_CODEX}"),
            ("-c", 'model_catalog_json="$catalogue_file"'),
            ("--model", "$model"),
        ),
        files={CATALOGUE_FILE: "$catalogue"},
        catalogue=("debug", "models"),
        usual="gpt-5.5",
    ),
    LaunchClient(
        name="opencode",
        command="opencode",
        install="npm install -g opencode-ai",
        variables={
            **_ENV_KEY,
            "OPENCODE_CONFIG_CONTENT": {
                "provider": {
                    "trilogue": {
                        "npm": "@ai-sdk/openai-compatible",
                        "name": "Trilogue",
                        "options": {"baseURL": "$url/v1", "apiKey": "{env:TRILOGUE_KEY}"},
                        "models": {"$model": {"name": "$model"}, "$small": {"name": "$small"}},
                    }
                },
                "model": "trilogue/$model",
                "small_model": "trilogue/$small",
            },
        },
    ),
    LaunchClient(
        name="qwen",
        command="qwen",
        install="npm install -g @qwen-code/qwen-code",
        variables={"OPENAI_BASE_URL": "$url/v1", "OPENAI_API_KEY": "$key", "OPENAI_MODEL": "$model"},
        arguments=(("--auth-type", "openai"), ("--openai-base-url", "$url/v1"), ("--model", "$model")),
    ),
    LaunchClient(
        name="copilot",
        command="copilot",
        install="npm install -g @github/copilot",
        variables={
            "COPILOT_PROVIDER_BASE_URL": "$url/v1",
            "COPILOT_PROVIDER_WIRE_API": "responses",
            "COPILOT_PROVIDER_API_KEY": "$key",
            "COPILOT_MODEL": "$model",
        },
    ),
    LaunchClient(
        name="aider",
        command="aider",
        install="pipx install aider-chat",
        variables={"OPENAI_API_BASE": "$url/v1", "OPENAI_API_KEY": "$key"},
        arguments=(
            ("--model", "openai/$model"),
            ("--weak-model", "openai/$small"),
            ("--no-show-model-warnings",),
        ),
    ),
    LaunchClient(
        name="goose",
        command="goose",
        install="brew install block-goose-cli",
        variables={
            "GOOSE_PROVIDER": "openai",
            "GOOSE_MODEL": "$model",
            "OPENAI_HOST": "$url",
            "OPENAI_BASE_PATH": "v1/chat/completions",
            "OPENAI_API_KEY": "$key",
        },
    ),
    LaunchClient(
        name="continue",
        command="cn",
        install="npm install -g @continuedev/cli",
        variables={},
        arguments=(("--config", "$dir/config.yaml"),),
        files={
            "config.yaml": {
                "name": "Trilogue",
                "version": "1.0.0",
                "schema": "v1",
                "models": [
                    {
                        "name": "$model",
                        "provider": "openai",
                        "model": "$model",
                        "apiBase": "$url/v1",
                        "apiKey": "$key",
                        "roles": ["chat", "edit", "apply", "summarize"],
                    }
                ],
            }
        },
    ),
    LaunchClient(
        name="run",
        command="",
        install="",
        variables={
            "OPENAI_BASE_URL": "$url/v1",
            "OPENAI_API_BASE": "$url/v1",
            "OPENAI_API_KEY": "$key",
            "OPENAI_MODEL": "$model",
            "ANTHROPIC_BASE_URL": "$url",
            "ANTHROPIC_API_KEY": "$key",
            "ANTHROPIC_MODEL": "$model",
            "TRILOGUE_URL": "$url",
            "TRILOGUE_KEY": "$key",
        },
        removed=("ANTHROPIC_AUTH_TOKEN", "OPENAI_ORG_ID", "OPENAI_ORGANIZATION", "OPENAI_PROJECT_ID"),
        usual="gpt-5.5",
    ),
)

CLIENTS = {client.name: client for client in _ALL}
"""all clients by name"""


class LaunchSetup(Struct, frozen=True, kw_only=True):
    """What one start of a client sets."""

    command: tuple[str, ...]
    variables: dict[str, str]
    removed: tuple[str, ...]
    files: dict[str, str]
    """contents by name, for the temporary folder"""


_LONG = {"-m": "--model"}
_REPEATABLE = {"-c"}
"""Options that may be there twice. Of all others the user's own counts: some clients refuse to start otherwise."""


def setup_of(client: LaunchClient, values: Mapping[str, str], given: tuple[str, ...]) -> LaunchSetup:
    """Return what to set for a client. `values`: those of the templates. `given`: the user's own arguments."""
    arguments: list[str] = []
    own = {_LONG.get(name, name) for name in (part.partition("=")[0] for part in given)} - _REPEATABLE
    for group in client.arguments:
        filled = [_filled(part, values) for part in group]
        if all(part is not None for part in filled) and group[0] not in own:
            arguments += [part for part in filled if part is not None]
    variables = {name: _text(value, values) for name, value in client.variables.items()}
    program = (client.command,) if client.command else ()
    return LaunchSetup(
        command=(*program, *arguments, *given),
        variables={name: value for name, value in variables.items() if value is not None},
        removed=client.removed,
        files={name: text for name, content in client.files.items() if (text := _text(content, values)) is not None},
    )


def _text(content: Content, values: Mapping[str, str]) -> str | None:
    if isinstance(content, str):
        return _filled(content, values)
    return msgspec.json.encode(_filled_json(content, values)).decode()


def _filled_json(content: Content, values: Mapping[str, str]) -> Content:
    """Return JSON with all templates filled in. Fields whose templates cannot be filled are left out."""
    if isinstance(content, str):
        return _filled(content, values)
    if isinstance(content, list):
        return [_filled_json(item, values) for item in content]
    if not isinstance(content, dict):
        return content
    fields = {_filled(name, values): _filled_json(value, values) for name, value in content.items()}
    return {name: value for name, value in fields.items() if name is not None and value is not None}


def _filled(template: str, values: Mapping[str, str]) -> str | None:
    """Return a text with its templates filled in; None if there is no value for one of them."""
    try:
        return Template(template).substitute(values)
    except KeyError:
        return None
