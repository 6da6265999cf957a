"""The names of protocols: every name is taken wherever one can be written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from trilogue import Protocol, translate_request
from trilogue.app.cli.app import app
from trilogue.config.load import parse
from trilogue.config.schema import json_schema
from trilogue.errors import TrilogueError
from trilogue.gateway.features.explain.routing import asked_protocol
from trilogue.lint import lint_response

NAMES = {
    "chat": Protocol.CHAT,
    "openai_chat_completions": Protocol.CHAT,
    "openai_chat": Protocol.CHAT,
    "chat_completions": Protocol.CHAT,
    "messages": Protocol.MESSAGES,
    "anthropic_messages": Protocol.MESSAGES,
    "responses": Protocol.RESPONSES,
    "openai_responses": Protocol.RESPONSES,
}
REQUEST = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}], "input": "Hello"}
URL = "http://127.0.0.1:9/v1"


def test_all_names_are_here() -> None:
    built_in = set(NAMES.values())
    assert {name for name in Protocol.names() if Protocol.parse(name) in built_in} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_taken_everywhere(name: str, tmp_path: Path) -> None:
    protocol = NAMES[name]
    text = f"providers: {{one: {{protocol: {name}, base_url: '{URL}'}}, two: {{protocol: responses, base_url: '{URL}'"
    for more in (f"also_speaks: [{name}]", f"base_urls: {{{name}: '{URL}'}}"):
        config = parse(f"{text}, {more}}}}}".encode(), {}, tmp_path)
        assert config.providers["one"].protocol is protocol
        assert protocol in config.providers["two"].protocols
    preset = "openai" if protocol is not Protocol.MESSAGES else "anthropic"
    text = f"providers: {{{preset}: {{protocol: {name}, accounts: [a-key-0123]}}}}"
    assert parse(text.encode(), {}, tmp_path).providers[preset].protocol is protocol
    assert name in json_schema()["$defs"]["Protocol"]["enum"]
    assert asked_protocol(name) is protocol
    assert translate_request(REQUEST, source=name, target="messages").body
    assert lint_response(name, {})
    (tmp_path / "request.json").write_text(json.dumps(REQUEST))
    for command in (
        ["convert", "--from", name, "--to", name, str(tmp_path / "request.json")],
        ["lint", "--kind", "request", "--protocol", name, str(tmp_path / "request.json")],
    ):
        assert CliRunner().invoke(app, command).exit_code in (0, 1)


@pytest.mark.parametrize("name", ["openai", "anthropic", "Chat", "openai-chat", ""])
def test_other_names_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(TrilogueError, match=r"protocol.*(must be one of chat, messages|is required)"):
        parse(f"providers: {{one: {{protocol: '{name}', base_url: '{URL}'}}}}".encode(), {}, tmp_path)
    with pytest.raises(TrilogueError, match="there is no protocol"):
        translate_request(REQUEST, source=name, target="messages")
    assert CliRunner().invoke(app, ["collect", "--protocol", name, "-"]).exit_code == 2
