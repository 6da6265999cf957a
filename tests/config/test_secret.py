"""Secrets are never shown."""

import copy
import json
import logging
import traceback
from pathlib import Path

import msgspec
import pytest

from trilogue.base.secrets import Secret
from trilogue.config.load import parse
from trilogue.config.references import resolve
from trilogue.errors import ConfigError
from trilogue.upstreams.sources import MAX_SECRET_BYTES, BadReference

CANARY = "canary-3f1c9a77e2"


@pytest.mark.parametrize(
    "show",
    [repr, str, "{}".format, "{!r:>9}".format, "%s".__mod__, ascii, lambda secret: f"{[secret]} { ({'k': secret}) }"],
)
def test_no_way_of_printing_shows_it(show: object) -> None:
    """repr, str, format and everything based on them hide the secret."""
    assert callable(show)
    text = show(Secret(CANARY))
    assert CANARY not in text
    assert "***" in text


def test_it_cannot_be_encoded() -> None:
    """Encoders cannot encode a secret."""
    with pytest.raises(TypeError):
        json.dumps({"key": Secret(CANARY)})
    with pytest.raises(TypeError):
        msgspec.json.encode({"key": Secret(CANARY)})


def test_it_compares_and_copies() -> None:
    """Configurations with the same keys are equal."""
    assert Secret("a") == Secret("a") == copy.copy(Secret("a"))
    assert Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert len({Secret("a"), Secret("a")}) == 1
    assert not Secret("")


def test_references(tmp_path: Path) -> None:
    """A reference may name a variable or a file, whose last line break is removed, or be the text itself."""
    (tmp_path / "key").write_text("from file\r\n")
    assert resolve("env:A", {"A": " x \n"}, tmp_path).reveal() == "x"
    assert resolve("file:key", {}, tmp_path).reveal() == "from file"
    assert resolve(f"file:{tmp_path}/key", {}, Path("/nowhere")).reveal() == "from file"
    assert resolve("sk-literal", {}, tmp_path).reveal() == "sk-literal"
    assert resolve("sk-literal", {}, tmp_path).literal
    assert not resolve("env:A", {"A": "x"}, tmp_path).literal


def test_bad_files(tmp_path: Path) -> None:
    """Files that are empty, too large, not text or not there are refused."""
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "large").write_bytes(b"x" * (MAX_SECRET_BYTES + 1))
    (tmp_path / "binary").write_bytes(b"\xff\x00")
    for name, message in {
        "empty": "is empty",
        "large": "is larger than",
        "binary": "printable ASCII",
        "": "followed by a path",
        "\x00": "not a path",
        ".": "Is a directory",
    }.items():
        with pytest.raises(BadReference, match=message):
            resolve(f"file:{name}", {}, tmp_path)


PLACES = [
    "keys: [{canary}]",
    "keys: [{{key: {canary}, name: 1}}]",
    "keys: {canary}",
    "keys: {{{canary}: 1}}",
    "keys: [{{{canary}: 1}}]",
    "keys: ['env:{canary}!']",
    "keys: [{canary}, {canary}]",
    "seal_keys: [{canary}]",
    "seal_keys: {canary}",
    "providers: {{a: {{protocol: {canary}}}}}",
    "providers: {{a: {{protocol: openai_responses, accounts: {canary}}}}}",
    "providers: {{a: {{protocol: openai_responses, accounts: [{canary}], mode: x}}}}",
    "providers: {{a: {{protocol: openai_responses, accounts: [{{{canary}: x}}]}}}}",
    "providers: {{a: {{protocol: openai_responses, base_url: 'http://u:{canary}@x'}}}}",
    "providers: {{a: {{protocol: openai_responses, base_url: 'x?key={canary}'}}}}",
    "providers: {{a: {{protocol: openai_responses, headers: {{Host: {canary}}}}}}}",
    "providers: {{a: {{protocol: openai_responses, headers: {canary}}}}}",
    "providers: {{a: {{protocol: openai_responses, headers: {{x: [{canary}]}}}}}}",
    "mode: {canary}",
    "server: {{port: {canary}}}",
    "server: {{host: '{canary}!'}}",
    "keys: [{canary}\n",
    "keys: *{canary}",
    "keys: !{canary} x",
    "keys: ['{canary}]",
    'keys: ["{canary}\\q"]',
    "keys: %{canary}",
    "? [{canary}]\n: x",
]


@pytest.mark.parametrize("place", PLACES)
def test_secret_in_the_wrong_place_does_not_show(place: str, tmp_path: Path) -> None:
    """Errors go to terminals and logs, so neither they nor their causes contain a value of the file."""
    secret = f"sk-{CANARY}-{'0' * 20}"
    try:
        shown = repr(parse(place.format(canary=secret).encode(), {}, tmp_path))
    except ConfigError as error:
        shown = "".join(traceback.format_exception(error)) + repr(error) + repr(error.problems)
    assert CANARY not in shown


def test_configuration_in_a_log_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Logging the whole configuration does not reveal a secret."""
    text = f"""
keys: [{CANARY}1, {{key: env:K}}]
seal_keys: [{CANARY}{"2" * 32}]
providers: {{a: {{protocol: openai_responses, accounts: [{CANARY}3, env:K], headers: {{x-secret: {CANARY}4}}}}}}
"""
    config = parse(text.encode(), {"K": f"{CANARY}5"}, tmp_path)
    with caplog.at_level(logging.DEBUG):
        logging.getLogger("test").info("loaded %s %r", config, config)
    assert "***" in caplog.text
    assert CANARY not in caplog.text
