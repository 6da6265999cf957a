"""TODO upstreams.state."""
