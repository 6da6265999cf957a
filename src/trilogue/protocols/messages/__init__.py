"""The codec of Anthropic Messages: `POST /v1/messages`."""

from trilogue.protocols.codec import Codec, FieldRules, ReasoningRules, ToolRules, TurnRules
from trilogue.protocols.messages.decode_stream import MessagesStreamDecoder
from trilogue.protocols.messages.encode_stream import MessagesStreamEncoder
from trilogue.protocols.messages.endpoint import ENDPOINT
from trilogue.protocols.messages.errors import decode_error, encode_error
from trilogue.protocols.messages.fast_decode import summarize
from trilogue.protocols.messages.history import HISTORY, PAUSES
from trilogue.protocols.messages.hosted import TOOL_SEARCH
from trilogue.protocols.messages.reasoning import may_hold_sealed, unsealed_calls, without_sealed
from trilogue.protocols.messages.request import decode_request, encode_request
from trilogue.protocols.messages.response import decode_response, encode_response
from trilogue.protocols.messages.tools import OFFERED
from trilogue.protocols.messages.wire import (
    FIELD_POLICIES,
    MAX_NAME,
    PROTOCOL,
    REQUEST_FIELDS,
    RESPONSE_POLICIES,
    may_lack_results,
)

CODEC = Codec(
    protocol=PROTOCOL,
    endpoint=ENDPOINT,
    decode_request=decode_request,
    encode_request=encode_request,
    decode_response=decode_response,
    encode_response=encode_response,
    decoder=MessagesStreamDecoder,
    encoder=MessagesStreamEncoder,
    decode_error=decode_error,
    encode_error=encode_error,
    fields=FieldRules(
        known=REQUEST_FIELDS,
        required=frozenset({"max_tokens"}),
        policies=FIELD_POLICIES,
        response_policies=RESPONSE_POLICIES,
    ),
    tools=ToolRules(
        name_limit=MAX_NAME,
        hosted=OFFERED,
        in_history=HISTORY,
        in_pairs=True,
        may_lack_results=may_lack_results,
        search=TOOL_SEARCH,
    ),
    reasoning=ReasoningRules(
        may_hold_sealed=may_hold_sealed,
        unsealed_calls=unsealed_calls,
        without_sealed=without_sealed,
        first_in_turn=True,
        needs_tokens=True,
    ),
    turns=TurnRules(needs_user=True, billing_block=True, pauses=PAUSES, refusals=False),
    summarize=summarize,
)
