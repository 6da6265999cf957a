"""The Anthropic Messages protocol."""

from trilogue.model import HostedKind
from trilogue.protocols.codec import Codec
from trilogue.protocols.messages.decode_request import decode_request
from trilogue.protocols.messages.decode_response import decode_response
from trilogue.protocols.messages.decode_stream import MessagesStreamDecoder
from trilogue.protocols.messages.encode_request import encode_request
from trilogue.protocols.messages.encode_response import encode_response
from trilogue.protocols.messages.encode_stream import MessagesStreamEncoder
from trilogue.protocols.messages.errors import decode_error, encode_error
from trilogue.protocols.messages.glance import glance
from trilogue.protocols.messages.tools import OFFERED_KINDS
from trilogue.protocols.messages.wire import FATES, MAX_NAME, PROTOCOL, REQUEST_FIELDS, RESPONSE_FATES

CODEC = Codec(
    protocol=PROTOCOL,
    decode_request=decode_request,
    encode_request=encode_request,
    decode_response=decode_response,
    encode_response=encode_response,
    glance=glance,
    decoder=MessagesStreamDecoder,
    encoder=MessagesStreamEncoder,
    decode_error=decode_error,
    encode_error=encode_error,
    request_fields=REQUEST_FIELDS,
    fates=FATES,
    response_fates=RESPONSE_FATES,
    history_tools=frozenset({HostedKind.WEB_SEARCH, HostedKind.MCP}),
    hosted_tools=OFFERED_KINDS,
    custom_tools=False,
    name_limit=MAX_NAME,
)
