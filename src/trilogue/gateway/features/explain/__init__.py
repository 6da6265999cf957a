"""Shows administrators what happened to a request, and what would happen to one."""
