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
from trilogue.protocols.codec import Codec, FieldRules, ReasoningRules, ToolRules, TurnRules

CODEC = Codec(
    protocol=PROTOCOL,
    endpoint=ENDPOINT,
    decode_request=decode_request,
    encode_request=encode_request,
    decode_response=decode_response,
    encode_response=encode_response,
    decoder=ChatStreamDecoder,
    encoder=ChatStreamEncoder,
    decode_error=decode_error,
    encode_error=encode_error,
    fields=FieldRules(known=REQUEST_FIELDS, policies=FIELD_POLICIES, response_policies=RESPONSE_POLICIES),
    tools=ToolRules(
        name_limit=MAX_NAME,
        custom=True,
        hosted=frozenset({HostedKind.WEB_SEARCH}),
        may_lack_results=may_lack_results,
    ),
    reasoning=ReasoningRules(unsealed_calls=unsealed_calls, without_sealed=without_sealed),
    turns=TurnRules(one_text=True, search_usage=False),
    summarize=summarize,
)
