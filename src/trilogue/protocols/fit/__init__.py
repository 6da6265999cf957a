"""Fit a neutral request to what the target's model accepts, by its profile.

Each module takes a request and returns one that fits, with a loss for every change, or raises `Unsupported` if no
sensible request is left. Nothing here knows wire formats: encoders write the result.
"""

from trilogue.protocols.fit.request import FITTED, emulated_stops, fit_request

__all__ = ["FITTED", "emulated_stops", "fit_request"]
