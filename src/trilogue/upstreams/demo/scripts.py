"""What the demo model says, as data. `respond` chooses from it."""

from __future__ import annotations

from enum import StrEnum

from trilogue.model import Failure, FailureKind, SearchHit


class Scenario(StrEnum):
    """A feature that a response demonstrates."""

    TEXT = "text"
    THINK = "think"
    TOOLS = "tools"
    PARALLEL = "parallel"
    SEARCH = "search"
    REFUSE = "refuse"
    LONG = "long"
    LENGTH = "length"
    ERROR = "error"
    ERROR_MIDSTREAM = "error_midstream"


MODELS: dict[str, Scenario | None] = {
    "demo": None,
    "demo-text": Scenario.TEXT,
    "demo-reasoning": Scenario.THINK,
    "demo-tools": Scenario.TOOLS,
    "demo-parallel-tools": Scenario.PARALLEL,
    "demo-search": Scenario.SEARCH,
    "demo-refusal": Scenario.REFUSE,
    "demo-length": Scenario.LENGTH,
    "demo-error": Scenario.ERROR,
    "demo-error-midstream": Scenario.ERROR_MIDSTREAM,
}
"""the models by name; `demo` does what the user asks for, the others always do the same"""

KEYWORDS: tuple[tuple[str, Scenario], ...] = (
    ("error", Scenario.ERROR),
    ("refuse", Scenario.REFUSE),
    ("search", Scenario.SEARCH),
    ("think", Scenario.THINK),
    ("long", Scenario.LONG),
)
"""words of the user that choose what `demo` shows; the first one that occurs wins"""

GREETING = (
    "Hello! I am the demo model that is built into Trilogue: a script, not a real model, and I need no key and no "
    "network. "
)
QUOTE = "You said: “{text}”. "
SILENCE = "You said nothing. "
HINT = (
    "Try one of the words think, search, refuse, long or error, offer me a tool and ask for it, or choose another of "
    "my models, such as demo-tools."
)
THOUGHTS = (
    "The user would like to see how reasoning looks.",
    "I have no thoughts of my own, so I count to three: one, two, three. That will do.",
)
THOUGHT_TEXT = "I have thought about it. What you see above or next to this text is how my reasoning reaches you. "
LONG_SENTENCE = "This is sentence number {number} of {count}, and it is here to give you time to watch the stream. "
LONG_SENTENCES = 25
LENGTH = "This response stops in the middle because it has reached its"
REFUSAL = "I am sorry, but I cannot help with that. You asked me to refuse, and I do so politely."
OFFER = "I would call a tool now, but you have not offered me one. "
RESULT = "Your tool {name} returned: “{text}”. "
RESULT_FAILED = "Your tool {name} failed and said: “{text}”. "
RESULT_END = "That is all I wanted to know, thank you."
BEFORE_ERROR = "This response begins well, but soon the stream will break, because you chose the model for that. "

SEARCH_HITS = (
    SearchHit(url="https://example.org/three-protocols", title="Three protocols, one conversation"),
    SearchHit(url="https://example.org/demo", title="What a demo model can do"),
)
SEARCH_TEXT: tuple[tuple[str, int | None], ...] = (
    ("I have searched, though not the real web. ", None),
    ("Trilogue lets every client of one protocol use every backend of another", 0),
    (", and ", None),
    ("its demo model shows each feature without a key", 1),
    (".", None),
)
"""pieces of the response, and which hit each of them cites"""

FAILURE = Failure(
    kind=FailureKind.SERVER,
    message="The demo model fails because it was asked to.",
    status=500,
    code="demo_error",
    type="server_error",
)
UNKNOWN = "There is no demo model of that name; there are: {names}."
