"""A fourth protocol of our own invention, to show that a protocol is one package and one registration."""

from tests.fourth_protocol.endpoint import ENDPOINT
from tests.fourth_protocol.errors import decode_error, encode_error
from tests.fourth_protocol.request import decode_request, encode_request
from tests.fourth_protocol.response import decode_response, encode_response
from tests.fourth_protocol.stream import TurnsStreamDecoder, TurnsStreamEncoder
from tests.fourth_protocol.wire import PROTOCOL, REQUEST_FIELDS
from trilogue.protocols.codec import Codec, FieldRules

CODEC = Codec(
    protocol=PROTOCOL,
    endpoint=ENDPOINT,
    decode_request=decode_request,
    encode_request=encode_request,
    decode_response=decode_response,
    encode_response=encode_response,
    decoder=TurnsStreamDecoder,
    encoder=TurnsStreamEncoder,
    decode_error=decode_error,
    encode_error=encode_error,
    fields=FieldRules(known=REQUEST_FIELDS),
)
