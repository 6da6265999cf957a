"""The signatures of requests to webhooks of the configuration."""
