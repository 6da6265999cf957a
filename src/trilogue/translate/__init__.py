"""Translation from any protocol to any other: requests, complete responses and streams."""
