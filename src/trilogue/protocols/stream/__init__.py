"""What the stream decoders and encoders of all protocols share: framing, block numbers, the life cycle of a response.

The event types of a protocol are in its own package.
"""
