"""Which items of a response are kept, so that the client may refer to them later."""

from __future__ import annotations

import time

from trilogue.gateway.request.call import Call
from trilogue.gateway.request.outbound import Outbound
from trilogue.gateway.setup.items import ItemStore
from trilogue.model import Json
from trilogue.protocols.registry import CODECS


def keep_items(call: Call, outbound: Outbound, body: dict[str, Json], items: ItemStore) -> None:
    """Keep the items of a translated response, unless its client asked not to store it."""
    asked = outbound.exchange.body if outbound.exchange else {}
    if CODECS[call.client].endpoint.continues and asked.get("store") is not False:
        items.put(call.key_name, body.get("output") or [], time.monotonic())
