"""Base URLs in the forms that people use."""

import pytest

from trilogue.base.addresses import url_fault
from trilogue.model import Protocol
from trilogue.upstreams.addresses import endpoint, is_azure

CHAT, MESSAGES, RESPONSES = Protocol.CHAT, Protocol.MESSAGES, Protocol.RESPONSES


@pytest.mark.parametrize(
    ("base", "protocol", "path", "url"),
    [
        ("http://h:9100", CHAT, "/chat/completions", "http://h:9100/v1/chat/completions"),
        ("http://h:9100/", CHAT, "/chat/completions", "http://h:9100/v1/chat/completions"),
        ("http://h:9100/v1", CHAT, "/chat/completions", "http://h:9100/v1/chat/completions"),
        ("http://h:9100/v1/", CHAT, "chat/completions", "http://h:9100/v1/chat/completions"),
        ("http://h:9100/v1", RESPONSES, "/responses", "http://h:9100/v1/responses"),
        ("http://h:9100", RESPONSES, "/v1/responses", "http://h:9100/v1/responses"),
        ("http://h:9100", MESSAGES, "/messages", "http://h:9100/v1/messages"),
        ("http://h:9100/v1", MESSAGES, "/messages", "http://h:9100/v1/messages"),
        ("http://h:9100/v1", MESSAGES, "/messages/count_tokens", "http://h:9100/v1/messages/count_tokens"),
        ("http://[::1]:9100", CHAT, "/models", "http://[::1]:9100/v1/models"),
        ("https://openrouter.ai/api/v1", CHAT, "/chat/completions", "https://openrouter.ai/api/v1/chat/completions"),
        ("https://openrouter.ai/api", CHAT, "/chat/completions", "https://openrouter.ai/api/v1/chat/completions"),
        ("https://openrouter.ai/api", MESSAGES, "/messages", "https://openrouter.ai/api/v1/messages"),
        ("https://api.groq.com/openai", CHAT, "/chat/completions", "https://api.groq.com/openai/v1/chat/completions"),
        ("https://g/v1beta/openai/", CHAT, "/chat/completions", "https://g/v1beta/openai/chat/completions"),
        ("https://z/api/paas/v4", CHAT, "/chat/completions", "https://z/api/paas/v4/chat/completions"),
        ("https://m/inference", CHAT, "/chat/completions", "https://m/inference/chat/completions"),
        ("https://d/anthropic", MESSAGES, "/messages", "https://d/anthropic/v1/messages"),
        ("https://gw/v1/acc/gw/anthropic", MESSAGES, "/messages", "https://gw/v1/acc/gw/anthropic/v1/messages"),
        ("https://gw/v1/acc/gw/openai", CHAT, "/chat/completions", "https://gw/v1/acc/gw/openai/chat/completions"),
        (
            "https://r.openai.azure.com/openai/deployments/X?api-version=2024-10-21",
            CHAT,
            "/chat/completions",
            "https://r.openai.azure.com/openai/deployments/X/chat/completions?api-version=2024-10-21",
        ),
        (
            "https://r.openai.azure.com/openai/v1?api-version=preview",
            RESPONSES,
            "/responses",
            "https://r.openai.azure.com/openai/v1/responses?api-version=preview",
        ),
        (
            "https://r.openai.azure.com/openai",
            RESPONSES,
            "/responses",
            "https://r.openai.azure.com/openai/v1/responses",
        ),
        ("https://p/chat/completions", CHAT, "/chat/completions", "https://p/chat/completions"),
        ("https://p/v1/chat/completions/", CHAT, "/models", "https://p/v1/models"),
        ("https://p/v1/messages", MESSAGES, "/messages", "https://p/v1/messages"),
    ],
)
def test_endpoint(base: str, protocol: Protocol, path: str, url: str) -> None:
    """A base with or without a version is completed as in the vendors' own clients."""
    assert endpoint(base, protocol, path) == url


@pytest.mark.parametrize("url", ["http://h", "https://h:1/x", "http://[::1]:2", "https://h/?api-version=1", "demo:"])
def test_good_urls(url: str) -> None:
    """These are valid base URLs."""
    assert url_fault(url) is None


@pytest.mark.parametrize(
    "url",
    [
        "h",
        "/v1",
        "ftp://h",
        "http://",
        "http:///v1",
        "http://h:x",
        "http://h:0",
        "http://[::1",
        "http://h/a b",
        "http://h\n/",
        "http://u@h",
        "http://u:p@h",
        "https://h/#x",
        "https://h?api_key=1",
        "https://h?Key=",
        "file:///x",
        "demo:x",
    ],
)
def test_bad_urls(url: str) -> None:
    """These are refused because they are not URLs or contain a secret."""
    fault = url_fault(url)
    assert fault is not None
    assert fault.startswith("must ")


def test_azure_is_known_by_its_hosts() -> None:
    """The host decides, not the same text elsewhere in the URL."""
    assert is_azure("https://me.openai.azure.com/openai/v1")
    assert not is_azure("https://example.org/openai.azure.com")
    assert not is_azure("https://openai.azure.com.example.org")
    assert not is_azure("http://[")
