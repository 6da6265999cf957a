"""Which provider and upstream model a model name means: pure decisions, based on names only."""

from trilogue.routing.errors import LONG_CONTEXT, MAX_MODEL_NAME, BadPattern, NoRoute, check_model_name
from trilogue.routing.router import Resolution, Router, Upstream
from trilogue.routing.routes import RoutableProvider, Route, RouteTarget, find_problems

__all__ = [
    "LONG_CONTEXT",
    "MAX_MODEL_NAME",
    "BadPattern",
    "NoRoute",
    "Resolution",
    "RoutableProvider",
    "Route",
    "RouteTarget",
    "Router",
    "Upstream",
    "check_model_name",
    "find_problems",
]
