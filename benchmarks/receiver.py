"""A receiver of traces that reads and forgets them, so that gateways can export spans: `python -m benchmarks.receiver`.

It prints its port and runs until it is ended.
"""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    """Takes one export after the other."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Read the body and respond with an empty message, which means success."""
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


def main() -> None:
    """Print the port and serve."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
