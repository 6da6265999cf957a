"""What all requests to webhooks of the configuration have in common."""
