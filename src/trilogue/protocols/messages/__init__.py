"""The codec of Anthropic Messages: `POST /v1/messages`."""

from trilogue.protocols.codec import Codec
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
    summarize=summarize,
    decoder=MessagesStreamDecoder,
    encoder=MessagesStreamEncoder,
    decode_error=decode_error,
    encode_error=encode_error,
    request_fields=REQUEST_FIELDS,
    field_policies=FIELD_POLICIES,
    history_tools=HISTORY,
    hosted_tools=OFFERED,
    custom_tools=False,
    name_limit=MAX_NAME,
    response_policies=RESPONSE_POLICIES,
    may_hold_sealed=may_hold_sealed,
    may_lack_results=may_lack_results,
    unsealed_calls=unsealed_calls,
    without_sealed=without_sealed,
    required_fields=frozenset({"max_tokens"}),
    needs_user=True,
    hosted_in_pairs=True,
    billing_block=True,
    thinking_first=True,
    refusals=False,
    needs_tokens=True,
    pauses=PAUSES,
    tool_search=TOOL_SEARCH,
)
