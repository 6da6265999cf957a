"""Policies judge, rewrite or stop requests and blocks of responses, in any protocol, streamed or not.

`Policy` is the interface, `PolicyRun` applies policies to one request and its response. Nothing here does I/O: a run
says what it waits for, and the caller (the gateway, or a program that uses the library) gets the answer.
"""
