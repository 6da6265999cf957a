"""A protocol that is registered at run time behaves like a member of the enum.

It runs in a process of its own: other tests iterate over the protocols.
"""

import subprocess
import sys

SCRIPT = """
import copy, pickle
import msgspec
from trilogue import ClientError, Protocol, codec
from trilogue.model import Provenance, Traits

decoder = msgspec.json.Decoder(Provenance)
assert decoder.decode(b'{"protocol":"openai_responses"}').protocol is Protocol.RESPONSES
before = list(Protocol)
added = Protocol.register("example_protocol", "example", Traits(logprobs=True))

assert list(Protocol) == [*before, added] and len(Protocol) == 4 and added in Protocol
assert type(added) is Protocol and isinstance(added, str)
assert Protocol("example_protocol") is Protocol.parse("example") is added
assert added.value == str(added) == "example_protocol"
assert (added.short, added.name) == ("example", "EXAMPLE")
assert repr(added) == "<Protocol.EXAMPLE: 'example_protocol'>"
assert {added: 1}["example_protocol"] == 1
assert pickle.loads(pickle.dumps(added)) is added and copy.deepcopy(added) is added
assert decoder.decode(b'{"protocol":"example_protocol"}').protocol is added
assert msgspec.json.encode(Provenance(protocol=added))[:32] == b'{"protocol":"example_protocol","'
for names in (("example_protocol", "other"), ("other", "chat")):
    try:
        Protocol.register(*names, Traits())
    except ValueError:
        continue
    raise AssertionError(names)
try:
    codec("unheard of")
except ClientError as error:
    assert "example (example_protocol)" in str(error)
print("all of it")
"""


def test_a_registered_protocol_is_a_member() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("all of it\n", "")
