"""Decides which account a request goes to: what a model name means, and which account is next. No I/O, no clock."""
