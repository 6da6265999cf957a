"""What vendors respond when they refuse something in a request, as publicly reported and as recorded.

`REFUSALS` name what to leave out, change or rename. `NOT_LEARNED` must not change what the gateway knows about an
upstream. Facts as of Nov 2026.
"""

from __future__ import annotations

from tests.vendors.refusal_texts_anthropic import ANTHROPIC, OTHER_MESSAGES
from tests.vendors.refusal_texts_kinds import Body, NotLearned, Protocol, RefusalText, Remedy, Why
from tests.vendors.refusal_texts_not_learned import TOO_MUCH, WHO_AND_WHAT
from tests.vendors.refusal_texts_not_learned_messages import HISTORIES, TOOLS
from tests.vendors.refusal_texts_openai import OPENAI_CHAT, OPENAI_RESPONSES
from tests.vendors.refusal_texts_openai_hosts import AZURE, COPILOT, OPENROUTER
from tests.vendors.refusal_texts_others import CHINA, DEEPSEEK, HOSTS, MOONSHOT, XAI
from tests.vendors.refusal_texts_own_servers import OWN_SERVERS
from tests.vendors.refusal_texts_strict import CEREBRAS, GEMINI, GROQ, MISTRAL

__all__ = ["NOT_LEARNED", "REFUSALS", "Body", "NotLearned", "Protocol", "RefusalText", "Remedy", "Why"]

REFUSALS: tuple[RefusalText, ...] = (
    *OPENAI_CHAT,
    *OPENAI_RESPONSES,
    *AZURE,
    *COPILOT,
    *OPENROUTER,
    *ANTHROPIC,
    *OTHER_MESSAGES,
    *MISTRAL,
    *GROQ,
    *CEREBRAS,
    *GEMINI,
    *HOSTS,
    *XAI,
    *DEEPSEEK,
    *MOONSHOT,
    *CHINA,
    *OWN_SERVERS,
)

NOT_LEARNED: tuple[NotLearned, ...] = (*TOO_MUCH, *WHO_AND_WHAT, *HISTORIES, *TOOLS)
