"""What Chat Completions and Responses share because both are OpenAI's: errors, cache marks, moderation, strict schemas.

What only one of the two has is in its own package.
"""
