"""Whose API an upstream is, by its address."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from trilogue.profiles import vendor_named

_HOSTS = (
    (r"(\w+\.)?api\.openai\.com|chatgpt\.com", "openai"),
    (r".*\.(openai\.azure|services\.ai\.azure|cognitiveservices\.azure)\.com", "azure"),
    (r"api\.anthropic\.com", "anthropic"),
    (r"api\.deepseek\.com", "deepseek"),
    (r".*\.mistral\.ai", "mistral"),
    (r"api\.(moonshot|kimi)\.(cn|ai|com)", "moonshot"),
    (r"api\.groq\.com", "groq"),
    (r"api\.x\.ai", "xai"),
    (r"generativelanguage\.googleapis\.com|.*aiplatform\.googleapis\.com", "gemini"),
    (r"openrouter\.ai", "openrouter"),
)
_HOST_PATTERNS = tuple((re.compile(pattern), vendor) for pattern, vendor in _HOSTS)
_OLLAMA_PORT = 11434


def vendor_of(base_url: str, provider: str = "") -> str:
    """Return the vendor that an upstream's address or its name in the configuration tells; "" if neither does."""
    parts = urlsplit(base_url)
    host = parts.hostname or ""
    for pattern, vendor in _HOST_PATTERNS:
        if pattern.fullmatch(host):
            return vendor
    if parts.netloc.endswith(f":{_OLLAMA_PORT}"):
        return "ollama"
    return vendor_named(provider)
