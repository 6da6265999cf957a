"""The codec of OpenAI Chat Completions: `POST /v1/chat/completions`."""

from trilogue.model import HostedKind
from trilogue.protocols.chat.decode_stream import ChatStreamDecoder
from trilogue.protocols.chat.encode_stream import ChatStreamEncoder
from trilogue.protocols.chat.endpoint import ENDPOINT
from trilogue.protocols.chat.errors import decode_error, encode_error
from trilogue.protocols.chat.fast_decode import summarize
from trilogue.protocols.chat.reasoning import unsealed_calls, without_sealed
from trilogue.protocols.chat.request import decode_request, encode_request
from trilogue.protocols.chat.response import decode_response, encode_response
from trilogue.protocols.chat.wire import (
    FIELD_POLICIES,
    MAX_NAME,
    PROTOCOL,
    REQUEST_FIELDS,
    RESPONSE_POLICIES,
    may_lack_results,
)
from trilogue.protocols.codec import Codec

CODEC = Codec(
    protocol=PROTOCOL,
    endpoint=ENDPOINT,
    decode_request=decode_request,
    encode_request=encode_request,
    decode_response=decode_response,
    encode_response=encode_response,
    summarize=summarize,
    decoder=ChatStreamDecoder,
    encoder=ChatStreamEncoder,
    decode_error=decode_error,
    encode_error=encode_error,
    request_fields=REQUEST_FIELDS,
    field_policies=FIELD_POLICIES,
    history_tools=frozenset(),
    hosted_tools=frozenset({HostedKind.WEB_SEARCH}),
    custom_tools=True,
    name_limit=MAX_NAME,
    response_policies=RESPONSE_POLICIES,
    may_lack_results=may_lack_results,
    unsealed_calls=unsealed_calls,
    without_sealed=without_sealed,
    search_usage=False,
    one_text=True,
)
