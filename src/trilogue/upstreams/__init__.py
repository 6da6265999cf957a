"""What is needed to reach an upstream: providers, accounts with their keys, transports, lists of models, the demo."""
