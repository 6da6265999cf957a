"""The admin interface: its own listener with its own key, for administrators and programs that watch the gateway.

`interface` has what its parts are made of, `parts` lists them, and `api` admits requests and finds their handler.
"""
