"""TODO gateway.features."""
