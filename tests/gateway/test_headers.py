"""What of a client's request an upstream of the same protocol sees: parts that need no gateway to be tried."""

import pytest

from trilogue.gateway.setup.headers import with_query


@pytest.mark.parametrize(
    ("url", "query", "joined"),
    [
        ("https://h/v1/models", b"", "https://h/v1/models"),
        ("https://h/v1/models", b"b=2", "https://h/v1/models?b=2"),
        ("https://h/v1/models?a=1", b"b=2", "https://h/v1/models?a=1&b=2"),
        ("https://h/v1/models?a=1", b"", "https://h/v1/models?a=1"),
    ],
)
def test_queries_are_joined(url: str, query: bytes, joined: str) -> None:
    """The client's query comes after the provider's own, such as Azure's `api-version`."""
    assert with_query(url, query) == joined
