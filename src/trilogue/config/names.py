"""What providers, accounts, client keys and stored keys may be called."""

from __future__ import annotations

import re

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
NAME_RULE = "must be letters, digits, dots, dashes and underscores, at most 64"
