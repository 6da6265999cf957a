"""Rate limits and budgets of client keys, owners, models and routes: settings, counts, decisions, warnings."""
