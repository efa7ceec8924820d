"""Names for calls, turns and messages: unguessable, and short enough to read in a log."""

import secrets


def new_id(kind: str) -> str:
    """A fresh name such as `resp_f3Zk0pYxT1mA`."""
    return f"{kind}_{secrets.token_urlsafe(9)}"
