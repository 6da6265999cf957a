"""What is started: the worker, the ASGI application, the transports for SDKs, and the command line."""
