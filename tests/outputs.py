"""Print one hash of everything that translation produces, to show that a change of structure changed no output.

    python -m tests.outputs [FILE]

The hash covers all recordings and the generated requests of `tests.vendors`, on every pair of protocols: bodies,
events, loss codes and paths, and which error was raised. Sealed values and the words of our own messages are left out.
FILE gets one line per case, so that two runs can be compared with `diff`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import trilogue
from tests.corpus import cases, load
from tests.vendors.client_requests import PROTOCOLS, client_requests, single_settings
from tests.vendors.everyday import EVERYDAY
from tests.vendors.judge import COMBINATIONS
from trilogue import Protocol, Target, TrilogueError

SEALED = re.compile(rb"trl\d\.[A-Za-z0-9_-]+")
GENERATED = 12
"""generated requests per client protocol and model"""

Made = tuple[bytes, Iterable[trilogue.Loss]]
Case = tuple[str, Callable[[], Made]]


def digest(make: Callable[[], Made]) -> str:
    """Return a hash of what one case produces, or of the kind of error that it raises."""
    try:
        body, losses = make()
    except TrilogueError as error:
        return type(error).__name__
    text = SEALED.sub(b"sealed", body) + repr(sorted((loss.code, loss.path) for loss in losses)).encode()
    return blake2b(text, digest_size=8).hexdigest()


def recorded() -> Iterator[Case]:
    """Yield every recorded request, complete response and stream, to be translated to each of the three protocols."""
    for client in Protocol:
        for name in load.requests():
            for model in (cases.NEWEST[client], cases.OLDER[client]):
                yield f"request {name} {client} {model}", partial(request, name, client, model)
        for name in load.bodies():
            yield f"response {name} {client}", partial(response, name, client)
        for name in load.streams():
            yield f"stream {name} {client}", partial(stream, name, client)
            yield f"half a stream {name} {client}", partial(half_a_stream, name, client)


def request(name: str, target: Protocol, model: str) -> Made:
    recording = load.load(name)
    assert recording.request is not None
    return made_request(recording.request, recording.protocol, Target.of(target, model))


def response(name: str, target: Protocol) -> Made:
    recording = load.load(name)
    assert recording.body is not None
    made = trilogue.translate_response(recording.body, source=recording.protocol, target=target)
    return trilogue.dump(made.body), made.losses


def stream(name: str, target: Protocol) -> Made:
    recording = load.load(name)
    assert recording.stream is not None
    return cases.translate_stream(recording, target, [recording.stream])


def half_a_stream(name: str, target: Protocol) -> Made:
    """Return the events before the error that ends the stream. The words of the error are our own."""
    recording = load.load(name)
    assert recording.stream is not None
    exchange = cases.asked(recording, target)
    translator = trilogue.StreamTranslator(source=recording.protocol, target=target, exchange=exchange)
    middle = len(recording.stream) // 2
    quarter = middle // 2
    out = translator.feed(recording.stream[:quarter]) + translator.feed(recording.stream[quarter:middle])
    return out, translator.losses


def generated() -> Iterator[Case]:
    """Yield generated and everyday requests for every vendor, protocol and model."""
    bodies = {
        client: [*(body for _, body in single_settings(client)), *client_requests(client, 11, GENERATED)]
        for client in PROTOCOLS
    }
    for client, one in ((one.protocol, one) for one in EVERYDAY.values() if not one.stateful):
        bodies[client].append(one.body)
    for vendor, protocol, model in COMBINATIONS:
        target = Target.of(protocol, model, vendor=vendor)
        for client in PROTOCOLS:
            for number, body in enumerate(bodies[client]):
                name = f"generated {client} {number} {vendor} {protocol} {model}"
                yield name, partial(made_request, {**body, "model": model}, client, target)


def made_request(body: dict[str, Any], client: Protocol | str, target: Target) -> Made:
    made = trilogue.translate_request(body, source=client, target=target)
    return trilogue.dump(made.body), made.losses


def main() -> None:
    """Print the hash and the number of cases."""
    whole, count = blake2b(digest_size=16), 0
    with Path(sys.argv[1] if len(sys.argv) > 1 else "/dev/null").open("w") as lines:
        for make_all in (recorded, generated):
            for name, make in make_all():
                line = f"{digest(make)} {name}\n"
                lines.write(line)
                whole.update(line.encode())
                count += 1
    print(f"{count} cases, hash {whole.hexdigest()}")


if __name__ == "__main__":
    main()
