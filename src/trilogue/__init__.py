"""Translate between OpenAI Chat Completions, Anthropic Messages and OpenAI Responses."""
