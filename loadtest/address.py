"""A server's address as the callers' protocols need it: ws:// and http:// name the same server."""

_PLAIN = {"ws": "http", "wss": "https"}
_SOCKET = {plain: socket for socket, plain in _PLAIN.items()}


def as_http(server: str) -> str:
    """`server` (ws://, http:// or without a scheme) for requests."""
    return _with_scheme(server, _PLAIN, "http")


def as_websocket(server: str) -> str:
    """`server` (ws://, http:// or without a scheme) for WebSockets."""
    return _with_scheme(server, _SOCKET, "ws")


def _with_scheme(server: str, schemes: dict[str, str], default: str) -> str:
    scheme, found, rest = server.rstrip("/").partition("://")
    return f"{schemes.get(scheme, scheme)}://{rest}" if found else f"{default}://{scheme}"
