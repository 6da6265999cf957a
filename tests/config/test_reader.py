"""Any data gives a configuration or a list of problems."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trilogue.config.config import Config
from trilogue.config.config import setting_paths as all_settings
from trilogue.config.load import parse
from trilogue.errors import ConfigError
from trilogue.upstreams.build import router_of

NAMES = sorted({part.rstrip("[]") for path in all_settings() for part in path.split(".")})
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.sampled_from(
        ["", "env:X", "env:KEY", "file:x", "openai_responses", "chat/x", "http://h", "demo:", "^(", "$1", "0"]
    ),
    st.text("ab/.[]$\n", max_size=6),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from([*NAMES, "chat", "x"]), inner, max_size=5)
    ),
    max_leaves=25,
)


@settings(max_examples=300, deadline=None)
@given(
    st.dictionaries(st.sampled_from([name for name in NAMES if name in Config.__struct_fields__]), VALUES, max_size=5)
)
def test_only_our_error_escapes(data: dict[str, object]) -> None:
    """Values of every wrong type in every place cause only our own error."""
    try:
        config = parse(msgspec.json.encode(data), {"KEY": "k"}, Path("nowhere"))
    except ConfigError as error:
        lines = str(error).splitlines()
    else:
        lines = []
        router_of(config)
    assert all(": " in line or "unknown key" in line for line in lines)


@pytest.mark.parametrize("name", [name for name in Config.__struct_fields__])
def test_every_setting_checks_its_type(name: str) -> None:
    """No setting accepts every type."""
    with pytest.raises(ConfigError) as caught:
        parse(msgspec.json.encode({name: [[[]]] if name != "keys" else 1}), {}, Path())
    assert caught.value.problems[0].path.startswith(name)
