"""Rate limits and budgets of client keys, owners, models and routes: settings, counts and decisions. No I/O, no clock.

`admit` decides on a request and counts it, by what `most` says that it can take, and `settle` corrects the counts when
it has ended. Both work on rows of a `LimitTable`, which may be shared by processes.
"""
