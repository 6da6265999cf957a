"""Translation from any protocol to any other: requests, whole answers, streams."""
