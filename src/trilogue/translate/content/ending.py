"""The end of a conversation: what the model has to respond to.

A response that was cut off leaves its beginning at the end of the history: Codex sends the items that it has got. The
model is to go on, which protocols and models understand that would continue the last text itself, or refuse it.
"""

from __future__ import annotations

from msgspec.structs import replace

from trilogue.errors import Unsupported
from trilogue.model import Ledger, Native, Reasoning, Request, Role, Text, Turn
from trilogue.protocols.codec import Target
from trilogue.protocols.fields import FieldPolicies
from trilogue.protocols.registry import CODECS

GO_ON = "Continue."


def refuse_unanswered(turns: tuple[Turn, ...], policies: FieldPolicies) -> None:
    """Raise `Unsupported` for an answer of the user that the upstream cannot get, if the model has not acted on it.

    A response without that answer would be worse than none. Answers before the last assistant turn are history.
    """
    for turn in reversed(turns):
        if turn.role is Role.ASSISTANT:
            return
        for block in turn.blocks:
            policy = policies.get(block.type) if type(block) is Native else None
            if policy is not None and policy.unanswered:
                raise Unsupported(block.path, policy.unanswered)


def ended_by_user(request: Request, target: Target, ledger: Ledger) -> Request:
    """Return a request that ends with the assistant so that the model begins a new turn.

    Reasoning at the end is left out: without the text or call that it led to, every API refuses it. After a text, the
    user says to go on, if the target would continue the text or refuse it, and the client did not ask for that.
    """
    turns = list(request.turns)
    while turns and turns[-1].role is Role.ASSISTANT and all([type(block) is Reasoning for block in turns[-1].blocks]):
        turn = turns.pop()
        for block in turn.blocks:
            ledger.add("reasoning.at_end", block.path)
    if not turns:
        return request
    last = turns[-1]
    stays = not CODECS[target.protocol].turns.needs_user and target.profile.prefill
    if last.role is Role.ASSISTANT and CODECS[request.protocol].turns.resumes and not stays:
        ledger.add("turn.inserted", last.path)
        turns.append(Turn(role=Role.USER, blocks=(Text(text=GO_ON, path=last.path),), plain=True, path=last.path))
    same = len(turns) == len(request.turns) and turns[-1] is request.turns[-1]
    return request if same else replace(request, turns=tuple(turns))
