"""The codec of OpenAI Responses: `POST /v1/responses`."""

from trilogue.model import HostedCall, ToolCall
from trilogue.protocols.codec import Codec, FieldRules, ReasoningRules, ToolRules, TurnRules
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
    decoder=ResponsesStreamDecoder,
    encoder=ResponsesStreamEncoder,
    decode_error=decode_error,
    encode_error=encode_error,
    fields=FieldRules(known=REQUEST_FIELDS, policies=FIELD_POLICIES, response_policies=RESPONSE_POLICIES),
    tools=ToolRules(
        name_limit=MAX_NAME,
        custom=True,
        builtin=True,
        hosted=OFFERED,
        in_history=HISTORY,
        may_lack_results=may_lack_results,
        search=TOOL_SEARCH,
        staged_blocks=frozenset({ToolCall, HostedCall}),
    ),
    reasoning=ReasoningRules(
        may_hold_sealed=may_hold_sealed,
        unsealed_calls=unsealed_calls,
        without_sealed=without_sealed,
        text=False,
        by_model=False,
        item_ids=True,
        summaries=True,
    ),
    turns=TurnRules(resumes=True, stop_sequences=False, keeps_text=True, streamed_failures=STREAMED_FAILURES),
    summarize=summarize,
    for_others=for_others,
    strip_agents=strip_agents,
)
