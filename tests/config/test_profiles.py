"""Named dialects match the profiles of the protocols."""

from typing import Literal, get_args

from msgspec import convert
from msgspec.structs import fields, replace

from trilogue.model import Protocol
from trilogue.upstreams.settings import PROFILES, ProfileName, ProfileSettings, ProviderSettings
from trilogue.vendors.profile import Profile
from trilogue.vendors.profile_lookup import profile_for

USES_OF_CACHE: tuple[Literal["auto", "client", "off"], ...] = ("auto", "client", "off")


def test_names_are_the_same_in_type_and_table() -> None:
    """Every name that the type allows is in the table."""
    assert set(get_args(ProfileName)) == set(PROFILES)


def test_fields_exist() -> None:
    """Every setting is a field of the profile, and every field can be set."""
    known = {field.name for field in fields(Profile)}
    assert {name for profile in PROFILES.values() for name in profile} <= known
    assert {field.name for field in fields(ProfileSettings)} == known | {"name"}


def test_auto_changes_nothing() -> None:
    """Without settings, the model's name decides, but for what only its server can tell."""
    for protocol in Protocol:
        for model in ("gpt-5", "claude-opus-4-5", "deepseek-chat", "x"):
            known = ProviderSettings(protocol=protocol).profile_for(model)
            assert ProfileSettings().for_model(protocol, model) == replace(known, compacts=False)
            assert ProfileSettings().for_model(protocol, model, "openai") == profile_for(protocol, model, "openai")


def test_servers_that_compact() -> None:
    """OpenAI's and Azure's are known to, by their address or by a setting; a server of any name can be said to."""
    for vendor, compacts in (("openai", True), ("azure", True), ("openrouter", False), ("", False)):
        assert ProfileSettings().for_model(Protocol.RESPONSES, "gpt-5.4", vendor).compacts is compacts
    assert ProfileSettings(name="openai").for_model(Protocol.RESPONSES, "my-deployment").compacts
    assert convert({"compacts": True}, ProfileSettings).for_model(Protocol.RESPONSES, "some-model").compacts


def test_openai_and_compatible_are_opposites() -> None:
    """A GPT deployment may have any name, and a compatible server may call its model gpt."""
    assert ProfileSettings(name="openai").for_model(Protocol.CHAT, "my-deployment").openai_fields
    assert not ProfileSettings(name="compatible").for_model(Protocol.CHAT, "gpt-5").openai_fields


def test_cache_marks_go_by_the_name_of_the_model() -> None:
    """Only OpenAI's newer models accept cache marks, and a deployment name does not show which model it is."""
    for model, marks in (("gpt-5.6", True), ("gpt-6.1-mini", True), ("gpt-5.4", False), ("my-deployment", False)):
        for protocol in (Protocol.CHAT, Protocol.RESPONSES):
            assert ProfileSettings(name="openai").for_model(protocol, model).cache_marks is marks


def test_the_setting_for_caching() -> None:
    """It changes what is added and what is sent, and nothing else."""
    for protocol, model in ((Protocol.MESSAGES, "claude-opus-5"), (Protocol.CHAT, "gpt-5.6"), (Protocol.CHAT, "x")):
        known = ProviderSettings(protocol=protocol).profile_for(model)
        auto, client, off = (
            ProviderSettings(protocol=protocol, cache=cache).profile_for(model) for cache in USES_OF_CACHE
        )
        assert auto == known
        assert client == replace(known, adds_caching=False)
        assert off == replace(known, adds_caching=False, cache_marks=False)
