"""The settings of the webhook."""

from __future__ import annotations

from msgspec import Struct

from trilogue.base.secrets import Secret


class WebhookSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where warnings are sent, besides the log. A plain string is short for `url`."""

    url: Secret | None = None
    """the URL that gets a POST request for each warning; a secret, because such URLs often contain a token: `env:NAME`
    or `file:path`; default: none"""
    secret: Secret | None = None
    """signs each request (HMAC-SHA256), so that the receiver can check who sent it; at least 16 characters"""
