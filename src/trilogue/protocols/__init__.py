"""The three wire protocols, one package each, all of the same shape. `protocols.registry` finds them by name."""
