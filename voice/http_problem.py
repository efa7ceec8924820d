"""An HTTP error in the form that OpenAI's clients read."""

from aiohttp import web


def problem(status: int, code: str, message: str, **headers: str) -> web.Response:
    """The answer; `code` is stable, `message` a sentence that says what to do."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    body = {"error": {"type": kind, "code": code, "message": message, "param": None}}
    return web.json_response(body, status=status, headers=headers)
