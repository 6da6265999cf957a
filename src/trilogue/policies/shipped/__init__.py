"""The policies that come with Trilogue, one module each."""
