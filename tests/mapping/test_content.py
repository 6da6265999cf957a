"""Text, images, files and audio in the input (docs/mapping.md: Text, images, files and audio)."""

from tests.mapping.cases import ABSENT, USER, Ask, Body, check_ask, like, one_of, rows, texts

URL = "https://example.com/cat.png"
DATA = "iVBORw0KGgo="
PDF = "JVBERi0xLjQK"


def user(protocol: str, *parts: Body) -> Body:
    """A request with one user turn of these parts."""
    turn = {"role": "user", "content": list(parts)}
    return {"input": [turn]} if protocol == "R" else {"messages": [turn]}


def part(protocol: str, number: int = 0) -> str:
    """Where a part of that turn is."""
    return f"input[0].content[{number}]" if protocol == "R" else f"messages[0].content[{number}]"


def turn(protocol: str) -> str:
    """Where the content of that turn is."""
    return part(protocol).removesuffix("[0]")


TEXT: dict[str, Body] = {
    "C": {"type": "text", "text": "x"},
    "M": {"type": "text", "text": "x"},
    "R": {"type": "input_text", "text": "x"},
}
IMAGE_URL: dict[str, Body] = {
    "C": {"type": "image_url", "image_url": {"url": URL}},
    "M": {"type": "image", "source": {"type": "url", "url": URL}},
    "R": {"type": "input_image", "image_url": URL},
}
IMAGE_DATA: dict[str, Body] = {
    "C": {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DATA}"}},
    "M": {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DATA}},
    "R": {"type": "input_image", "image_url": f"data:image/png;base64,{DATA}"},
}
FILE: dict[str, Body] = {
    "C": {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{PDF}", "filename": "a.pdf"}},
    "M": {
        "type": "document",
        "source": {"type": "base64", "media_type": "application/pdf", "data": PDF},
        "title": "a.pdf",
    },
    "R": {"type": "input_file", "file_data": f"data:application/pdf;base64,{PDF}", "filename": "a.pdf"},
}
PAIRS = ("C>M", "C>R", "M>C", "M>R", "R>C", "R>M")


def exact(name: str, forms: dict[str, Body]) -> tuple[Ask, ...]:
    """The same thing in all directions; `detail` may be spelled out, since its default is the same."""
    return tuple(
        Ask(
            name,
            pair,
            user(pair[0], TEXT[pair[0]], forms[pair[0]]),
            {part(pair[-1], 0): TEXT[pair[-1]], part(pair[-1], 1): same(forms[pair[-1]])},
        )
        for pair in PAIRS
    )


def same(form: Body) -> object:
    """The form itself, or with the default `detail` written out."""
    if "image_url" in form and isinstance(form["image_url"], dict):
        return one_of(form, {**form, "image_url": {**form["image_url"], "detail": "auto"}})
    return one_of(form, {**form, "detail": "auto"})


EXACT = (
    *exact("image by address", IMAGE_URL),
    *exact("image data", IMAGE_DATA),
    *exact("file data", FILE),
    Ask(
        "empty text is skipped",
        "C>M",
        user("C", {"type": "text", "text": ""}, TEXT["C"]),
        {part("M"): TEXT["M"], part("M", 1): ABSENT},
    ),
    Ask(
        "empty text is skipped",
        "R>M",
        user("R", {"type": "input_text", "text": ""}, TEXT["R"]),
        {part("M"): TEXT["M"], part("M", 1): ABSENT},
    ),
    Ask(
        "document by address",
        "M>R",
        user("M", {"type": "document", "source": {"type": "url", "url": "https://example.com/a.pdf"}}),
        {part("R"): like(type="input_file", file_url="https://example.com/a.pdf")},
    ),
    Ask(
        "document by address",
        "R>M",
        user("R", {"type": "input_file", "file_url": "https://example.com/a.pdf"}),
        {part("M"): like(type="document", source={"type": "url", "url": "https://example.com/a.pdf"})},
    ),
)

BMP: dict[str, Body] = {
    "C": {"type": "image_url", "image_url": {"url": "data:image/bmp;base64,Qk0="}},
    "R": {"type": "input_image", "image_url": "data:image/bmp;base64,Qk0="},
}
HIGH: dict[str, Body] = {
    "C": {"type": "image_url", "image_url": {"url": URL, "detail": "high"}},
    "R": {"type": "input_image", "image_url": URL, "detail": "high"},
}
FILE_ID: dict[str, Body] = {
    "C": {"type": "file", "file": {"file_id": "file_1"}},
    "M": {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
    "R": {"type": "input_image", "file_id": "file_1", "detail": "auto"},
}
FOUND = {"type": "search_result", "source": "https://e.com", "title": "T", "content": [{"type": "text", "text": "w"}]}

LIMITS = (
    *(
        Ask(
            "what is said of a file",
            f"M>{p}",
            user("M", {**FILE["M"], "context": "of 2024"}),
            {f"{part(p)}.text": "of 2024", part(p, 1): FILE[p]},
            lost="document.as_text",
        )
        for p in "CR"
    ),
    *(
        Ask(
            f"{name} that an assistant said",
            f"M>{p}",
            {
                "messages": [
                    {"role": "user", "content": "hi"},
                    {"role": "assistant", "content": [*said, block]},
                    {"role": "user", "content": "go"},
                ]
            },
            {f"{'messages' if p == 'C' else 'input'}[1]": like(role="assistant" if said else "user")},
            lost="native.dropped",
        )
        for p in "CR"
        for name, block in (("picture", IMAGE_URL["M"]), ("file", FILE["M"]), ("finding", FOUND))
        for said in ([], [{"type": "text", "text": "look"}])
    ),
    *(Ask("image type", f"{p}>M", user(p, BMP[p]), refused=f"{part(p)}") for p in "CR"),
    *(Ask("detail", f"{p}>M", user(p, HIGH[p]), {part("M"): IMAGE_URL["M"]}, lost="image.detail") for p in "CR"),
    Ask("detail", "C>R", user("C", HIGH["C"]), {part("R"): HIGH["R"]}),
    Ask("detail", "R>C", user("R", HIGH["R"]), {part("C"): HIGH["C"]}),
    *(Ask("file id", pair, user(pair[0], FILE_ID[pair[0]]), refused=part(pair[0])) for pair in ("M>C", "M>R", "R>M")),
    Ask("file id", "C>M", user("C", FILE_ID["C"]), refused=part("C")),
    Ask(
        "document file id",
        "M>R",
        user("M", {"type": "document", "source": {"type": "file", "file_id": "file_1"}}),
        refused=part("M"),
    ),
    Ask("document file id", "R>M", user("R", {"type": "input_file", "file_id": "file_1"}), refused=part("R")),
    *(
        Ask(
            "oversized image",
            f"M>{p}",
            user("M", {**IMAGE_URL["M"], "transformations": {"oversized_image": "downsize"}}),
            declared=f"{part('M')}.transformations",
        )
        for p in "CR"
    ),
    Ask(
        "document by address",
        "M>C",
        user("M", {"type": "document", "source": {"type": "url", "url": "https://example.com/a.pdf"}}),
        refused=part("M"),
    ),
    Ask(
        "document by address",
        "R>C",
        user("R", {"type": "input_file", "file_url": "https://example.com/a.pdf"}),
        refused=part("R"),
    ),
    *(
        Ask(
            "text document",
            f"M>{p}",
            user(
                "M",
                {
                    "type": "document",
                    "source": {"type": "text", "media_type": "text/plain", "data": "the words"},
                    "title": "Paper",
                    "context": "from the archive",
                },
            ),
            {turn(p): lambda content: all(word in str(content) for word in ("Paper", "from the archive", "the words"))},
            lost="document.as_text",
        )
        for p in "CR"
    ),
    *(
        Ask(
            "content document",
            f"M>{p}",
            user(
                "M",
                {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "the words"}]}},
            ),
            {turn(p): texts("the words")},
            may="document.as_text search_result.as_text",
        )
        for p in "CR"
    ),
    *(
        Ask(
            "search result",
            f"M>{p}",
            user(
                "M",
                {
                    "type": "search_result",
                    "source": "https://example.com/s",
                    "title": "Paper",
                    "content": [{"type": "text", "text": "the words"}],
                },
            ),
            {turn(p): lambda v: all(word in str(v) for word in ("Paper", "https://example.com/s", "the words"))},
            lost="search_result.as_text",
        )
        for p in "CR"
    ),
)

SOUND = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
VOICE = {"modalities": ["text", "audio"], "audio": {"format": "wav", "voice": "alloy"}}
PICTURE = {"id": "ig_1", "type": "image_generation_call", "result": "AAAA", "status": "completed"}
SAID = {"role": "user", "content": "Hi"}
EMPTY = {"role": "user", "content": ""}
EMPTIES = (
    Ask("nothing said", "C>R", {"messages": [EMPTY]}, {"input[0].role": "user", "input[0].content": ""}),
    Ask("nothing said", "R>C", {"input": [EMPTY]}, {"messages": [EMPTY]}),
    Ask("nothing said", "R>C", {"input": ""}, {"messages": [EMPTY]}),
    Ask("nothing said", "M>R", {"messages": [EMPTY]}, {"input[0].role": "user", "input[0].content": ""}),
    Ask("nothing said", "M>C", {"messages": [EMPTY]}, {"messages": [EMPTY]}),
)

REFUSED = (
    *(
        Ask(
            "a picture in a prompt",
            f"R>{p}",
            {"input": [{"role": role, "content": [{"type": "input_image", "image_url": "https://a/b.png"}]}, USER]},
            refused="input[0].content[0]",
        )
        for p in "CM"
        for role in ("system", "developer")
    ),
    *(Ask("audio in", f"C>{p}", user("C", SOUND), refused=part("C")) for p in "MR"),
    *(Ask("audio out", f"C>{p}", VOICE, refused="modalities") for p in "MR"),
    *(Ask("text only", f"C>{p}", {"modalities": ["text"]}) for p in "MR"),
    *(
        Ask(
            "container upload",
            f"M>{p}",
            user("M", {"type": "container_upload", "file_id": "file_1"}),
            refused=part("M"),
        )
        for p in "CR"
    ),
    *(Ask("generated image", f"R>{p}", {"input": [SAID, PICTURE, SAID]}, declared="input[1]") for p in "CM"),
)

TEXT_ONLY = (("deepseek-chat", "C"), ("o3-mini", "C"), ("o3-mini", "R"), ("gpt-3.5-turbo", "R"))
SOURCES = {"C": "MR", "R": "CM"}
SEEN = {"role": "assistant", "content": "Seen."}


def earlier(protocol: str, shown: Body) -> Body:
    """A request with a picture in its first turn, and another turn since."""
    turns = [{"role": "user", "content": [TEXT[protocol], shown]}, SEEN, SAID]
    return {"input" if protocol == "R" else "messages": turns}


BY_MODEL = (
    *(
        Ask(f"an image for {model}", f"{p}>{q}", user(p, TEXT[p], IMAGE_DATA[p]), refused=part(p, 1), model=model)
        for model, q in TEXT_ONLY
        for p in SOURCES[q]
    ),
    *(
        Ask(
            f"an earlier image for {model}",
            f"{p}>{q}",
            earlier(p, IMAGE_DATA[p]),
            {turn(q): lambda content: "image" in str(content) and DATA not in str(content)},
            lost="media.dropped",
            may="text.blocks_joined",
            model=model,
        )
        for model, q in TEXT_ONLY
        for p in SOURCES[q]
    ),
    *(
        Ask(
            "an image of a type that Claude does not take",
            f"{p}>M",
            user(p, {**IMAGE_DATA[p], "image_url": made("data:image/bmp;base64,Qk0=")}),
            refused=part(p),
        )
        for p, made in (("C", lambda url: {"url": url}), ("R", str))
    ),
)

CASES = (*EXACT, *LIMITS, *EMPTIES, *REFUSED, *BY_MODEL)


@rows(CASES)
def test_row(case: Ask) -> None:
    """Bytes and addresses arrive as they were; what the target has no form for is said or refused."""
    check_ask(case)


def test_raw_base64_of_a_chat_file_is_understood() -> None:
    """Chat clients send file_data with and without the data: prefix."""
    sent = {"type": "file", "file": {"file_data": PDF, "filename": "a.pdf"}}
    translated = Ask("raw", "C>M", user("C", sent)).run()
    assert translated.body["messages"][0]["content"][0]["source"] == FILE["M"]["source"]
