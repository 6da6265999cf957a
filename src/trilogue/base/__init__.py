"""What every package may use: JSON text, server-sent events, headers, encryption, secrets, clocks."""
