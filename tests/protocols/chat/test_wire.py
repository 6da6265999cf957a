"""The field tables are complete."""

from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming

from trilogue.protocols.chat import CODEC


def test_every_field_of_the_sdk_has_a_rule() -> None:
    """A field that OpenAI adds shows up here when the SDK is updated."""
    assert set(CompletionCreateParamsStreaming.__annotations__) <= CODEC.fields.known


def test_extensions_of_compatible_servers_have_a_rule() -> None:
    """They are sent by real clients and must not be unknown."""
    extensions = {"top_k", "thinking", "reasoning", "enable_thinking", "chat_template_kwargs"}
    assert extensions <= CODEC.fields.known
