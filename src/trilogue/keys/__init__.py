"""Client keys: what a key may do, keys that are made while the gateway runs, and how their texts are made. No I/O."""

from trilogue.keys.managed import (
    KeyStatus,
    ManagedKey,
    key_digest,
    may_be_managed,
    new_key_id,
    new_key_text,
    shown_end,
)
from trilogue.keys.options import KeyMode, KeyOptions, is_time, parse_time

__all__ = [
    "KeyMode",
    "KeyOptions",
    "KeyStatus",
    "ManagedKey",
    "is_time",
    "key_digest",
    "may_be_managed",
    "new_key_id",
    "new_key_text",
    "parse_time",
    "shown_end",
]
