"""From the upstream's bytes to the client's: attempts, whole and streamed responses, keep-alives and time limits.

`untold` has what an event of a judged stream says besides what was judged. What is sent to the upstream is decided in
`gateway.request`, which account to use in `pool`.
"""
