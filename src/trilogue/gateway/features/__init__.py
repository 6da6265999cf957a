"""What a gateway does beside its requests: each feature only watches them, or serves administrators."""
