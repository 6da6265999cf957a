"""TODO net."""
