"""Traces for OpenTelemetry: an observer that makes spans of requests, translations and attempts, and exports them.

The modules need the packages of the extra `otel`. They are only loaded if the configuration asks for traces.
"""
