"""The signalling of one call, of a caller's and of ours: BYE, REFER, re-INVITE over the library's dialogs."""

from collections.abc import Mapping

from aiosipua import IncomingCall, OutgoingCall, SipRequest, SipUAC, SipUAS
from aiosipua.dialog import Dialog, DialogState
from aiosipua.headers import parse_uri

_MOST_HEADERS, _LONGEST = 32, 500


class CallerLine:
    """The line of a call that came."""

    def __init__(self, uas: SipUAS, uac: SipUAC, call: IncomingCall) -> None:
        self._uas, self._uac, self._call = uas, uac, call

    @property
    def dialog(self) -> Dialog:
        """The call's dialog."""
        return self._call.dialog

    def bye(self) -> None:
        """See `Line`."""
        self._call._stop_retransmissions()
        if self.dialog.state is DialogState.CONFIRMED:
            self._call.hangup()
        self._uas._calls.pop(self._call.call_id, None)  # the library forgets only calls that the caller ends

    def refer(self, target: str) -> None:
        """See `Line`."""
        self._uac.send_refer(self.dialog, _referred(target, self.dialog), self._call.source_addr)


class CalledLine:
    """The line of a call that we made."""

    def __init__(self, uac: SipUAC, call: OutgoingCall) -> None:
        self._uac, self._call = uac, call

    @property
    def dialog(self) -> Dialog:
        """The call's dialog."""
        return self._call.dialog

    def bye(self) -> None:
        """See `Line`; before an answer it takes the call back."""
        if self.dialog.state is DialogState.EARLY:
            self._call.cancel(self._uac)
        else:
            self._call.hangup(self._uac)
        self._uac.remove_call(self._call.call_id)

    def refer(self, target: str) -> None:
        """See `Line`."""
        self._uac.send_refer(self.dialog, _referred(target, self.dialog), self._call.remote_addr)


def _referred(target: str, dialog: Dialog) -> str:
    """Whom the other side shall call: a URI as it is; a number is one of the other side's own."""
    if target.startswith(("sip:", "sips:", "tel:")):
        return target
    return f"sip:{target}@{parse_uri(dialog.remote_uri).host}"


def about(invite: SipRequest) -> Mapping[str, str]:
    """What an INVITE tells of its call: from, to, name, Call-ID, X- headers; bounded, all of it the sender's word."""
    told = {"from": _user(invite.from_addr), "to": _user(invite.to_addr), "call": invite.call_id or ""}
    if invite.from_addr is not None and invite.from_addr.display_name:
        told["name"] = invite.from_addr.display_name
    for name, values in invite.headers.items():
        if name.lower().startswith("x-") and values and len(told) < _MOST_HEADERS:
            told[name.lower()[:_LONGEST]] = values[0]
    return {name: value[:_LONGEST] for name, value in told.items()}


def _user(address: object) -> str:
    uri = getattr(address, "uri", None)
    return str(getattr(uri, "user", None) or getattr(uri, "host", "")) if uri is not None else ""
