"""What of a client's request an upstream of the same protocol sees: parts that need no gateway to be tried."""

import pytest

from trilogue.upstreams.headers import forwarded_headers, with_query


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


@pytest.mark.parametrize(
    ("connection", "kept"),
    [
        ("keep-alive", ("x-one", "x-two")),
        ("X-One", ("x-two",)),
        ("close, x-two ,X-ONE", ()),
        ("x-one,,", ("x-two",)),
        ("", ("x-one", "x-two")),
    ],
)
def test_headers_that_the_client_names_in_connection_stay_here(connection: str, kept: tuple[str, ...]) -> None:
    """They are for the next hop only: RFC 9110 §7.6.1."""
    headers = {"x-one": "1", "x-two": "2", "connection": connection}
    assert tuple(name for name, _ in forwarded_headers(headers, [])) == kept
