"""The rules of the linter as tables: what each says, how bad it is, and which client breaks when it is broken.

How a rule is checked is in `lint`; nothing here looks at data.
"""
