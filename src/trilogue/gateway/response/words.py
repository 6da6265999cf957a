"""The response to a request that a policy has stopped: the words of the policy, in the client's protocol."""

from __future__ import annotations

from trilogue.base.json_text import dump
from trilogue.gateway.response.client_response import JSON_HEADERS, ClientResponse, ResponseStep
from trilogue.model import Usage, events_of
from trilogue.policies import PolicyRun
from trilogue.protocols.registry import CODECS


class WordsResponse(ClientResponse):
    """A response that comes from the gateway alone. No upstream is asked."""

    async def say(self, run: PolicyRun) -> None:
        """Send the words with which a policy has stopped the request, streamed or not. Raises StoreError."""
        call, stamp, codec = self.call, self.stamp(), CODECS[self.call.client]
        reply = self.own_reply()
        reply.response_id, reply.stored = stamp.response_id, stamp.stored
        if call.turn is not None:
            reply.body = call.turn.echoed(reply.body)
        words = run.words_response(call.client, id=stamp.response_id, model=call.shown_model, created=stamp.now)
        self.record.usage = Usage()
        self.record.declare(list(call.losses))
        if call.stream:
            encoder = codec.encoder(reply)
            out = encoder.encode(list(events_of(words)))
            await self._keep(dump(encoder.snapshot))
            self._advance(ResponseStep.COMMIT)
            self._start([])
            self._advance(ResponseStep.END)
            self.responder.end(out)
        else:
            body = dump(codec.encode_response(words, reply))
            await self._keep(body)
            self._advance(ResponseStep.REPLY)
            self.responder.reply(200, JSON_HEADERS, body)

    async def _keep(self, body: bytes) -> None:
        if self.call.turn is not None:
            await self.call.turn.keep(body, None)
