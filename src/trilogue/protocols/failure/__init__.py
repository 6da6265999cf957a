"""What all protocols share about errors: conversion, status codes, retry times, and the words that agents act on.

The shape of an error body is in each protocol's `errors.py`. What to do about an error is decided in `pool`.
"""
