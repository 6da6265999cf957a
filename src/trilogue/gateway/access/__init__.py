"""Client keys: what a key may do, keys that are made while the gateway runs, and how their texts are made. No I/O."""
