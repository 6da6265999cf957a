"""The codec of OpenAI Responses: `POST /v1/responses`."""

from trilogue.model import HostedCall, ToolCall
from trilogue.protocols.codec import Codec
from trilogue.protocols.responses.codex import for_others, strip_agents
from trilogue.protocols.responses.decode_stream import ResponsesStreamDecoder
from trilogue.protocols.responses.encode_stream import ResponsesStreamEncoder
from trilogue.protocols.responses.endpoint import ENDPOINT
from trilogue.protocols.responses.errors import STREAMED_FAILURES, decode_error, encode_error
from trilogue.protocols.responses.fast_decode import summarize
from trilogue.protocols.responses.history import HISTORY
from trilogue.protocols.responses.hosted import TOOL_SEARCH
from trilogue.protocols.responses.reasoning import may_hold_sealed, unsealed_calls, without_sealed
from trilogue.protocols.responses.request import decode_request, encode_request
from trilogue.protocols.responses.response import decode_response, encode_response
from trilogue.protocols.responses.tools import OFFERED
from trilogue.protocols.responses.wire import (
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
    decoder=ResponsesStreamDecoder,
    encoder=ResponsesStreamEncoder,
    decode_error=decode_error,
    encode_error=encode_error,
    request_fields=REQUEST_FIELDS,
    field_policies=FIELD_POLICIES,
    history_tools=HISTORY,
    hosted_tools=OFFERED,
    custom_tools=True,
    name_limit=MAX_NAME,
    stop_sequences=False,
    streamed_failures=STREAMED_FAILURES,
    response_policies=RESPONSE_POLICIES,
    may_hold_sealed=may_hold_sealed,
    may_lack_results=may_lack_results,
    unsealed_calls=unsealed_calls,
    without_sealed=without_sealed,
    for_others=for_others,
    strip_agents=strip_agents,
    resumes=True,
    item_ids=True,
    text_reasoning=False,
    opaque_by_model=False,
    staged_blocks=frozenset({ToolCall, HostedCall}),
    builtin_tools=True,
    reasoning_summaries=True,
    tool_search=TOOL_SEARCH,
    keeps_text=True,
)
