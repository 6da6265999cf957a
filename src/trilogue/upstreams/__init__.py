"""TODO upstreams."""
