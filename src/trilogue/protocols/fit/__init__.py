"""Makes a neutral request fit what the target's model takes, as its profile says.

Each module takes a request and gives one that fits, with a loss for every change, or raises `Unsupported` where
nothing sensible is left. Nothing here knows wire formats: encoders write what comes out.
"""

from trilogue.protocols.fit.request import FITTED, emulated_stops, fit_request

__all__ = ["FITTED", "emulated_stops", "fit_request"]
