"""What all protocols share about errors: status codes, retry times, and the words that agents act on.

The shape of an error body is in each protocol's `errors.py`; what to do about an error is decided in `pool`.
"""
