"""Files of other gateways in, a Trilogue configuration out, with a list of everything that was not carried over.

`source` reads a file and knows which of its settings were used, `draft` collects the result and writes it, and there is
one module per gateway. Keys are never copied: the result refers to environment variables.
"""
