"""TODO vendors."""
