"""TODO storage."""
