"""Where the requests of an HTTP client go: presets, settings, keys, and the HTTP library."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

import openai
import pytest

import trilogue
from tests.inprocess.sdks import Sdks
from tests.scripted.scenario import ANSWER_TEXT
from tests.scripted.server import KEY, ScriptedUpstream
from trilogue import ClientError, HttpSettings, Protocol
from trilogue.app.embed.sdk import clients
from trilogue.app.embed.sdk.upstream import find_upstream
from trilogue.base.addresses import url_fault
from trilogue.vendors.table import PRESETS
from trilogue.vendors.vendor import Preset

FAKE = "fake-key-for-tests"


def test_a_preset_gives_address_protocol_and_key() -> None:
    found = find_upstream("anthropic/claude-sonnet-5", {}, {"ANTHROPIC_API_KEY": FAKE})
    assert (found.provider, found.model) == ("anthropic", "claude-sonnet-5")
    assert found.url(Protocol.MESSAGES) == "https://api.anthropic.com/v1/messages"
    assert found.credentials(Protocol.MESSAGES) == {"x-api-key": FAKE}


def test_only_the_first_slash_separates() -> None:
    found = find_upstream("openrouter/anthropic/claude-sonnet-4.6", {}, {"OPENROUTER_API_KEY": FAKE})
    assert (found.provider, found.model) == ("openrouter", "anthropic/claude-sonnet-4.6")
    assert found.credentials(Protocol.MESSAGES) == {"authorization": f"Bearer {FAKE}"}
    assert found.url(Protocol.MESSAGES) == "https://openrouter.ai/api/v1/messages"


def test_a_provider_alone_lets_each_request_name_its_model() -> None:
    assert find_upstream("openai", {}, {"OPENAI_API_KEY": FAKE}).model == ""


def test_the_base_url_of_the_environment_is_used_as_by_the_vendors_sdk() -> None:
    environ = {"OPENAI_API_KEY": FAKE, "OPENAI_BASE_URL": "http://127.0.0.1:4000/v1"}
    found = find_upstream("openai/gpt-5.5", {}, environ)
    assert found.url(Protocol.CHAT) == "http://127.0.0.1:4000/v1/chat/completions"
    assert found.url(Protocol.RESPONSES) == "http://127.0.0.1:4000/v1/responses"


def test_the_vendors_key_is_not_sent_to_another_address_unless_it_is_passed() -> None:
    environ = {"OPENAI_API_KEY": FAKE}
    assert find_upstream("openai/m", {"base_url": "http://127.0.0.1:8000"}, environ).key is None
    given: HttpSettings = {"base_url": "http://127.0.0.1:8000", "api_key": "other-fake-key"}
    assert find_upstream("openai/m", given, environ).credentials(Protocol.CHAT) == {
        "authorization": "Bearer other-fake-key"
    }


def test_azure_gets_its_own_header() -> None:
    given: HttpSettings = {
        "base_url": "https://example.openai.azure.com/openai/v1",
        "protocol": "responses",
        "api_key": FAKE,
    }
    assert find_upstream("azure/gpt", given, {}).credentials(Protocol.RESPONSES) == {"api-key": FAKE}


@pytest.mark.parametrize(
    ("name", "settings", "text"),
    [
        ("anthropic/claude", {}, "set ANTHROPIC_API_KEY, or pass api_key"),
        ("nothing/m", {}, "nothing is not a known provider: set base_url and protocol, or name one of openai, "),
        ("nothing/m", {"base_url": "http://127.0.0.1:1"}, "say with protocol= what nothing speaks"),
        (
            "anthropic/claude",
            {"protocol": "chat", "api_key": FAKE},
            "does not speak chat; it speaks messages",
        ),
        ("x/m", {"protocol": "chat", "base_url": "ftp://host"}, "base_url must be an http"),
        ("x/m", {"protocol": "telnet", "base_url": "http://127.0.0.1:1"}, "there is no protocol"),
    ],
)
def test_what_is_missing_is_named(name: str, settings: HttpSettings, text: str) -> None:
    with pytest.raises(ClientError, match=text):
        find_upstream(name, settings, {})


def test_no_secret_is_in_a_repr() -> None:
    assert FAKE not in repr(find_upstream("anthropic/m", {"api_key": FAKE}, {}))


@pytest.mark.parametrize("preset", PRESETS.values(), ids=lambda preset: preset.name)
def test_presets_have_usable_addresses(preset: Preset) -> None:
    assert preset.urls
    values = {parameter.name: "value" for parameter in preset.parameters}
    assert [url for url in preset.addresses(values).values() if url_fault(url)] == []
    assert bool(preset.port) is any("127.0.0.1" in url for url in preset.urls.values())
    assert preset.port or preset.variable or preset.command


@pytest.mark.parametrize("library", clients.LIBRARIES)
def test_both_http_libraries(sdks: Sdks, up: ScriptedUpstream, library: str) -> None:
    """OpenAI's SDK takes clients of both. The client is of the library that was asked for."""
    http = sdks.http("x/text", protocol="messages", library=library)
    assert isinstance(http, import_module(library).Client)
    client = openai.OpenAI(api_key="unused", http_client=http, max_retries=0)
    for stream in (False, True):
        asked = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "Hi"}], stream=stream)
        assert _text(asked) == "".join(ANSWER_TEXT)
    assert len(up.requests) == 2


def _text(answer: object) -> str:
    if isinstance(answer, openai.Stream):
        return "".join(chunk.choices[0].delta.content or "" for chunk in answer if chunk.choices)
    assert isinstance(answer, openai.types.chat.ChatCompletion)
    return answer.choices[0].message.content or ""


def test_without_an_http_library_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> ModuleType:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(clients, "import_module", nothing)
    with pytest.raises(ClientError, match="httpx2 or httpx is not installed"):
        trilogue.http_client("x/m", base_url="http://127.0.0.1:1", protocol="chat", api_key=KEY)


def test_an_unknown_library_is_refused() -> None:
    with pytest.raises(ClientError, match="library must be one of httpx2, httpx"):
        trilogue.http_client("x/m", base_url="http://127.0.0.1:1", protocol="chat", api_key=KEY, library="requests")
