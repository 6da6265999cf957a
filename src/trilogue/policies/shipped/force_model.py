"""The policy `force_model`: sends requests to another model than the one that the client asked for."""

from __future__ import annotations

from fnmatch import fnmatchcase

from msgspec import field
from msgspec.structs import replace

from trilogue.model import Request
from trilogue.policies.policy import Context, Policy, PolicySettings
from trilogue.policies.shipped.action import SettingsProblem
from trilogue.policies.verdicts import PASS, Rewrite


class ForceModelSettings(PolicySettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of `force_model`. `models`: patterns of names and what they become; `model`: for all others."""

    model: str = ""
    models: dict[str, str] = field(default_factory=dict)


class ForceModel(Policy):
    """Changes the model of a request."""

    Settings = ForceModelSettings
    _default_name = "ForceModel"

    def __init__(self, settings: PolicySettings) -> None:
        super().__init__(settings)
        if not isinstance(settings, ForceModelSettings) or not (settings.model or settings.models):
            raise SettingsProblem("model or models: one of them is required")
        self._settings = settings

    def on_request(self, request: Request, context: Context) -> object:
        """Change the model, unless the request is a policy's own."""
        if context.internal:
            return PASS
        named = [to for pattern, to in self._settings.models.items() if fnmatchcase(request.model, pattern)]
        model = named[0] if named else self._settings.model or request.model
        if model == request.model:
            return PASS
        return Rewrite(replace(request, model=model), reason=f"the model is {model}")
