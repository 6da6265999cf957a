"""Which provider and upstream model a model name means: pure decisions, based on names only."""
