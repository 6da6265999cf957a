from anthropic.types import message_create_params
from anthropic.types.beta import message_create_params as beta_params

from trilogue.protocols.fields import FieldPolicy
from trilogue.protocols.messages.wire import FIELD_POLICIES, NEUTRAL_FIELDS, REQUEST_FIELDS, reverse

# From the mapping's list of every field that a client may send, beside what the SDK has as arguments.
OLDER_FIELDS = {"temperature", "top_p", "top_k", "stream", "output_format", "anthropic_version", "anthropic_beta"}


def test_every_argument_of_the_sdk_has_a_rule() -> None:
    """A field that a new SDK adds must not be dropped without anyone having thought about it."""
    official = set(message_create_params.MessageCreateParamsNonStreaming.__annotations__)
    beta = set(beta_params.MessageCreateParamsNonStreaming.__annotations__) | set(
        beta_params.MessageCreateParamsBase.__annotations__
    )
    assert official | beta | OLDER_FIELDS <= REQUEST_FIELDS


def test_a_field_is_either_read_or_has_a_fate() -> None:
    """Otherwise it would be an extra that nobody declares."""
    unread = REQUEST_FIELDS - NEUTRAL_FIELDS
    assert unread <= set(FIELD_POLICIES)


def test_what_claude_code_sends_is_never_refused() -> None:
    """A default of a popular client is no reason for an error."""
    sent = {"context_management", "metadata", "cache_control", "betas", "diagnostics", "thinking", "output_config"}
    assert all(FIELD_POLICIES.get(name, FieldPolicy()).refuse is None for name in sent)


def test_state_at_the_provider_is_refused() -> None:
    """Going on without a container, thread or compaction would answer another question."""
    assert all(FIELD_POLICIES[name].refuse for name in ("container", "thread", "compaction", "container_upload"))


def test_reverse_prefers_the_first_row() -> None:
    """Two wire names of one neutral value: the usual one comes first."""
    assert reverse({"a": 1, "b": 1, "c": 2}) == {1: "a", 2: "c"}
