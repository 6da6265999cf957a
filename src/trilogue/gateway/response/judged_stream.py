"""Streamed responses that policies judge: while they decide, what they hold waits, and everything else goes on.

The upstream is read on in the meantime. Keep-alives go out as during any silence. If a policy stops the response, the
client gets its end at once, and the upstream is cancelled.
"""

from __future__ import annotations

import asyncio

from trilogue.gateway.gateway import Gateway
from trilogue.gateway.policies.run import RequestPolicies
from trilogue.gateway.response.attempt import RelayResult, UpstreamAttempt
from trilogue.gateway.response.client_response import ClientResponse
from trilogue.gateway.response.judged_pass_through import JudgedPassThrough
from trilogue.gateway.response.pass_through import StreamPath
from trilogue.gateway.response.stream import AnyContinuation, StreamRelay, is_over
from trilogue.gateway.response.tool_finder import find_tools
from trilogue.model import Provenance
from trilogue.net.client.interface import UpstreamResponse
from trilogue.policies import PolicyRun
from trilogue.protocols.stream.response_context import Reply
from trilogue.translate.pipeline import Unsigned, unsigned_by
from trilogue.translate.reasoning.seal import Sealer
from trilogue.translate.streams import StreamTranslator


class JudgedRelay(StreamRelay):
    """One upstream stream on its way through policies to the client."""

    __slots__ = ("_driving", "_moved", "_policies", "_run")

    def __init__(
        self,
        client: ClientResponse,
        attempt: UpstreamAttempt,
        gateway: Gateway,
        policies: RequestPolicies,
        continuation: AnyContinuation | None = None,
    ) -> None:
        self._policies = policies
        self._run = policies.response_run()
        super().__init__(client, attempt, gateway, continuation, _path(client, attempt, self._run, gateway))
        self._driving: asyncio.Task[None] | None = None
        """gets what the policies wait for"""
        self._moved = asyncio.Event()

    async def run(self) -> RelayResult:
        """Stream the response to the client; see `StreamRelay.run`."""
        try:
            return await super().run()
        finally:
            if self._driving is not None and not self._driving.done():
                self._driving.cancel()

    async def _read(self) -> None:
        """Read the stream until the response is over for the client, or the upstream has sent all of it."""
        reading = asyncio.get_running_loop().create_task(self._read_stream())
        reading.add_done_callback(self._wake)
        try:
            while not self._is_read(reading):
                self._moved.clear()
                await self._moved.wait()
        finally:
            if not reading.done():
                reading.cancel()
                await asyncio.wait({reading})
            # Break the reference cycle: the error that is raised holds this frame, and the task holds the error.
            del reading

    async def _read_stream(self) -> None:
        await super()._read()
        self._drive()

    def _is_read(self, reading: asyncio.Task[None]) -> bool:
        """Return whether nothing more is to be waited for. Raises what went wrong in reading or in sending."""
        driving = self._driving
        decided = driving is None or driving.done()
        if driving is not None and decided:
            driving.result()
        if reading.done():
            try:
                reading.result()
            finally:
                # As in `_read`: an error that is raised here holds this frame.
                del reading
            return decided
        # A verdict has ended the response while the upstream goes on.
        return is_over(self._path)

    async def _read_end(self, response: UpstreamResponse) -> None:
        await super()._read_end(response)
        self._drive()
        while self._driving is not None and not self._driving.done():
            await asyncio.wait({self._driving})
            self._driving.result()
            self._drive()
        if self._run.stopped is not None and not response.complete:
            await response.aclose()

    def _take(self, data: bytes) -> bool:
        enough = super()._take(data)
        self._drive()
        return enough

    def _drive(self) -> None:
        """Get what the policies wait for, if they do."""
        is_idle = self._driving is None or self._driving.done()
        if self._run.pending is not None and is_idle and not is_over(self._path):
            self._progress.held = True
            self._driving = asyncio.get_running_loop().create_task(self._answer())
            self._driving.add_done_callback(self._wake)

    async def _answer(self) -> None:
        # Hooks that take note of the end are waited for elsewhere: the client need not.
        while self._run.pending is not None and not is_over(self._path):
            self._forward(self._path.release(await self._policies.answer(self._run)))
        self._progress.held = False

    def _wake(self, _: asyncio.Task[None]) -> None:
        self._moved.set()


def _path(client: ClientResponse, attempt: UpstreamAttempt, run: PolicyRun, gateway: Gateway) -> StreamPath:
    """Return the translator or the pass-through, with policies."""
    outbound, call = attempt.outbound, client.call
    if outbound.exchange is not None:
        translator = StreamTranslator(
            source=outbound.protocol,
            target=call.client,
            exchange=outbound.exchange,
            stamp=client.stamp(),
            continues=outbound.pauses is not None,
            policies=run,
        )
        if outbound.exchange.search is not None:
            translator.answer_searches(find_tools)
        return translator
    return JudgedPassThrough(
        outbound.protocol,
        lambda: reply_for(client, attempt),
        run,
        unsigned_for(attempt, call.sealer),
        name=call.shown_model if outbound.renamed else "",
        echo=outbound.echo,
    )


def reply_for(client: ClientResponse, attempt: UpstreamAttempt) -> Reply:
    """Return what an encoder must know that writes a response of the client's own protocol anew."""
    reply = client.own_reply()
    reply.source = client.call.client
    reply.model = reply.model if attempt.outbound.renamed else ""
    return reply


def unsigned_for(attempt: UpstreamAttempt, sealer: Sealer) -> Unsigned:
    """Return what makes the value for changed reasoning in a response that is not translated."""
    planned, protocol = attempt.planned, attempt.outbound.protocol
    origin = Provenance(protocol=protocol, provider=planned.provider, model=planned.model, account=planned.account)
    return unsigned_by(sealer, origin, protocol)
