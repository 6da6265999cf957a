"""TODO gateway.features.approvals."""
