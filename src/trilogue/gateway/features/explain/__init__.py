"""TODO gateway.features.explain."""
