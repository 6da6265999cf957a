"""docs/demo.md lists the demo models and the words that `demo` knows."""

from __future__ import annotations

import re
from pathlib import Path

from trilogue.upstreams.demo.scripts import KEYWORDS, MODELS

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "demo.md").read_text("utf-8")


def test_the_models_and_words_are_those_of_the_demo() -> None:
    assert re.findall(r"^\| `(demo[\w-]*)` \|", PAGE, re.MULTILINE) == list(MODELS)
    words = re.findall(r"^\| (\w+) \|", PAGE.partition("| word |")[2], re.MULTILINE)
    assert words == [word for word, _ in KEYWORDS]
