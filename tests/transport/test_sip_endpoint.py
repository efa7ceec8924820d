"""The SIP endpoint against real SIP programs (sipp), a peer that sends byte by byte, and broken input."""

import asyncio
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import numpy as np
import pytest
from aiortp import RtpPacket
from hypothesis import given
from hypothesis import strategies as st

from budget.errors import PeerError
from tests import programs
from tests.conftest import eventually, free_port
from transport.frame import AudioFrame
from transport.requests import FromClient, HangUp, Hold, PressKey
from transport.rtp.digits import event_packets
from transport.sip.endpoint import Invitation, SipEndpoint
from transport.sip.leg import SipLeg
from transport.sip.options import SipOptions


class Office:
    """An endpoint that takes every call, or refuses it, and notes what the caller does."""

    def __init__(self, options: SipOptions, tasks: asyncio.TaskGroup) -> None:
        self.tasks = tasks
        self.refusal: tuple[int, int | None] | None = None
        self.hesitates = 0.0
        self.calls: list[SipLeg] = []
        self.came: list[list[FromClient]] = []
        self.speaks = self.closing = False
        self.endpoint = SipEndpoint(options, self._invited, ready=lambda: True, spawn=tasks.create_task)

    def _invited(self, invitation: Invitation) -> None:
        if self.refusal is not None:
            invitation.refuse(self.refusal[0], "No", self.refusal[1])
            return
        self.tasks.create_task(self._take(invitation))

    async def _take(self, invitation: Invitation) -> None:
        await asyncio.sleep(self.hesitates)
        leg = await invitation.accept()
        if leg is None:
            return
        if self.closing:
            await leg.hangup("test over")
        self.calls.append(leg)
        entries: list[FromClient] = []
        self.came.append(entries)
        await leg.ready()
        speaking = self.tasks.create_task(self._speak(leg)) if self.speaks else None
        async for entry in leg.frames():
            entries.append(entry)
        if speaking is not None:
            speaking.cancel()
        await leg.hangup("over")
        self.endpoint.over(leg)

    async def _speak(self, leg: SipLeg) -> None:
        tone = (0.3 * np.sin(np.arange(leg.rate // 50) * 2 * np.pi * 500 / leg.rate)).astype(np.float32)
        while True:
            await leg.play(tone)
            await asyncio.sleep(0.02)


@asynccontextmanager
async def office(**changes: object) -> AsyncIterator[Office]:
    options = replace(SipOptions(port=free_port(), rtp_ports=(21_000, 22_000)), **changes)
    async with asyncio.TaskGroup() as tasks:
        own = Office(options, tasks)
        await own.endpoint.start()
        try:
            yield own
        finally:
            own.closing = True
            for leg in own.calls:
                await leg.hangup("test over")
            await own.endpoint.stop()


async def sipp(own: Office, scenario: str, *flags: str) -> None:
    await programs.sipp(own.endpoint.options.port, scenario, *flags, patience=25)


def keys(entries: list[FromClient]) -> str:
    return "".join(entry.key for entry in entries if isinstance(entry, PressKey))


@pytest.mark.parametrize("over", ["u1", "t1"])
@pytest.mark.parametrize("scenario", ["plain", "late_offer", "session_timer", "hold", "cancel_late", "unknown_tag"])
async def test_calls_go_by_the_book_over_udp_and_tcp(scenario: str, over: str) -> None:
    async with office() as own:
        await sipp(own, scenario, "-t", over)
        if scenario == "hold":
            held = [entry.held for entry in own.came[0] if isinstance(entry, Hold)]
            assert held == [True, False]


async def test_options_and_a_secure_profile_without_keys_are_answered_as_they_should_be() -> None:
    async with office() as own:
        await sipp(own, "options")
        await sipp(own, "secure")
        assert not own.calls


async def test_a_refusal_names_when_to_come_back_or_is_busy() -> None:
    async with office() as own:
        own.refusal = (503, 3)
        await sipp(own, "refused")
        own.refusal = (486, None)
        await sipp(own, "busy")


async def test_callers_show_a_password_where_there_are_users() -> None:
    async with office(users={"alice": "wonder"}) as own:
        await sipp(own, "authentication")
        await sipp(own, "wrong_password")
        assert len(own.calls) == 1


async def test_callers_from_elsewhere_are_forbidden() -> None:
    async with office(allow=("192.0.2.0/24",), users={}) as own:
        await sipp(own, "plain")  # this machine may
        screening = own.endpoint._listeners["udp"]._screening
        assert not screening._may_call("198.51.100.7")
        assert screening._may_call("192.0.2.9")


async def test_keys_by_info_are_heard() -> None:
    async with office() as own:
        await sipp(own, "keys_by_info")
        assert keys(own.came[0]) == "42#"


async def test_fifty_calls_at_once_and_none_is_left() -> None:
    async with office() as own:
        own.speaks = True
        await sipp(own, "plain", "-m", "50", "-r", "50", "-l", "50")
        assert len(own.calls) == 50
        await eventually(lambda: not own.endpoint._legs and not own.endpoint._clock._streams)
        assert not own.endpoint._listeners["udp"].uas.active_calls


class Peer:
    """Sends what it is told to, byte by byte, and keeps the answers."""

    def __init__(self, own: Office) -> None:
        self.to = ("127.0.0.1", own.endpoint.options.port)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.setblocking(False)
        self.audio = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.audio.bind(("127.0.0.1", 0))
        self.audio.setblocking(False)
        self.port = self.socket.getsockname()[1]

    def close(self) -> None:
        self.socket.close()
        self.audio.close()

    def request(
        self, method: str, number: int = 1, *, branch: str = "z9hG4bKa", tag: str = "", body: str = ""
    ) -> bytes:
        lines = [
            f"{method} sip:agent@127.0.0.1 SIP/2.0",
            f"Via: SIP/2.0/UDP 127.0.0.1:{self.port};branch={branch}",
            f"From: <sip:me@127.0.0.1>;tag=mine{self.port}",
            f"To: <sip:agent@127.0.0.1>{tag}",
            f"Call-ID: call{self.port}",
            f"CSeq: {number} {method}",
            f"Contact: <sip:me@127.0.0.1:{self.port}>",
            "X-Queue: sales",
            *(["Content-Type: application/sdp"] if body else []),
            f"Content-Length: {len(body)}",
        ]
        return ("\r\n".join(lines) + "\r\n\r\n" + body).encode()

    def offer(self, form: str = "0", extra: str = "") -> str:
        return (
            "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n"
            f"m=audio {self.audio.getsockname()[1]} RTP/AVP {form}\r\n{extra}"
        )

    def send(self, data: bytes) -> None:
        self.socket.sendto(data, self.to)

    async def answers(self, seconds: float = 0.3) -> list[str]:
        await asyncio.sleep(seconds)
        found = []
        while True:
            try:
                found.append(self.socket.recv(65_536).decode(errors="replace"))
            except BlockingIOError:
                return found

    async def final(self) -> str:
        async with asyncio.timeout(5):
            while True:
                data = await asyncio.get_running_loop().sock_recv(self.socket, 65_536)
                if not data.startswith(b"SIP/2.0 1"):
                    return data.decode()


@asynccontextmanager
async def peer(**changes: object) -> AsyncIterator[tuple[Office, Peer]]:
    async with office(**changes) as own:
        caller = Peer(own)
        try:
            yield own, caller
        finally:
            caller.close()


async def test_a_repeated_invite_is_one_call_and_gets_the_same_answer() -> None:
    async with peer() as (own, caller):
        invite = caller.request("INVITE", body=caller.offer())
        caller.send(invite)
        first = await caller.final()
        caller.send(invite)
        assert await caller.final() == first
        assert len(own.calls) == 1
        tag = ";tag=" + re.search(r"^To:.*;tag=(\S+)", first, re.M)[1]
        caller.send(caller.request("ACK", branch="z9hG4bKb", tag=tag))
        bye = caller.request("BYE", 2, branch="z9hG4bKc", tag=tag)
        for _ in range(2):
            caller.send(bye)
            assert "SIP/2.0 200" in await caller.final()
        await eventually(lambda: not own.endpoint._legs)
        assert own.calls[0].about["x-queue"] == "sales"


async def test_a_call_that_is_cancelled_before_it_is_taken_never_was() -> None:
    async with peer() as (own, caller):
        own.hesitates = 0.4
        caller.send(caller.request("INVITE", body=caller.offer()))
        await asyncio.sleep(0.1)
        caller.send(caller.request("CANCEL"))
        answers = await caller.answers(0.8)
        assert [a.split()[1] for a in answers] == ["100", "200", "487", "487"], "487 again: it was not acknowledged"
        assert not own.calls
        assert not own.endpoint._clock._streams


async def test_a_failure_is_repeated_until_it_is_acknowledged() -> None:
    async with peer() as (own, caller):
        own.refusal = (503, 2)
        caller.send(caller.request("INVITE", body=caller.offer()))
        statuses = [a.split()[1] for a in await caller.answers(1.8)]
        assert statuses == ["100", "503", "503", "503"], "after 0.5 and 1.5 s"
        caller.send(caller.request("ACK", tag=";tag=x"))
        assert not await caller.answers(2.2)


async def test_the_same_invite_over_two_ways_is_taken_once() -> None:
    async with peer() as (own, caller):
        caller.send(caller.request("INVITE", body=caller.offer()))
        assert "SIP/2.0 200" in await caller.final()
        caller.send(caller.request("INVITE", branch="z9hG4bKother", body=caller.offer()))
        assert "SIP/2.0 482" in await caller.final()
        assert len(own.calls) == 1


async def test_what_is_no_call_gets_an_error_and_disturbs_nobody() -> None:
    async with peer() as (own, caller):
        for change, status in (
            (lambda r: r.replace(b"INVITE sip:agent@127.0.0.1 SIP", b"DANCE sip:agent@127.0.0.1 SIP"), "405"),
            (lambda r: r.replace(b"X-Queue: sales", b"Require: wings"), "420"),
            (lambda r: r.replace(b"application/sdp", b"text/plain"), "415"),
            (lambda r: r.replace(b"CSeq: 1 INVITE", b"CSeq: one"), "400"),
            (lambda r: r.replace(b"m=audio", b"m=video"), "488"),
            (lambda r: r.replace(b"RTP/AVP 0", b"RTP/AVP 18"), "488"),
            (lambda r: r.replace(b"From: <sip:me@127.0.0.1>", b"Frum: nobody"), "400"),
            (lambda r: r.replace(b"v=0", b"v=x"), "400"),
        ):
            caller.send(change(caller.request("INVITE", branch=f"z9hG4bK{status}{own.endpoint}", body=caller.offer())))
            assert f"SIP/2.0 {status}" in await caller.final(), status
        assert not own.calls


@given(st.binary(max_size=600), st.integers(0, 700))
def test_bytes_of_any_kind_never_break_the_endpoint(noise: bytes, place: int) -> None:
    async def send() -> None:
        async with peer() as (_own, caller):
            good = caller.request("INVITE", body=caller.offer("0 96", "a=rtpmap:96 telephone-event/8000\r\n"))
            caller.send(noise or b"x")
            caller.send(good[:place] + noise + good[place + len(noise) :])
            await asyncio.sleep(0.01)
            caller.send(caller.request("OPTIONS", branch="z9hG4bKlast"))
            async with asyncio.timeout(5):
                while "OPTIONS" not in await caller.final():
                    pass

    asyncio.run(send())


async def test_audio_and_keys_go_both_ways_in_the_format_that_was_offered_first() -> None:
    async with peer() as (own, caller):
        own.speaks = True
        caller.send(
            caller.request(
                "INVITE",
                body=caller.offer("8 0 97", "a=rtpmap:97 telephone-event/8000\r\na=ptime:40\r\n"),
            )
        )
        answer = await caller.final()
        assert "m=audio" in answer
        assert "RTP/AVP 8 97" in answer
        assert "a=ptime:40" in answer
        to = ("127.0.0.1", int(re.search(r"m=audio (\d+)", answer)[1]))
        number = 0
        for key in "1#":
            for packet in event_packets(key, 8_000, 20):
                number += 1
                if packet is not None:
                    stamp = {"1": 1_000, "#": 9_000}[key]
                    caller.audio.sendto(RtpPacket(97, 0, number, stamp, 7, payload=packet.payload).serialize(), to)
        await asyncio.sleep(0.5)
        heard = []
        while True:
            try:
                heard.append(RtpPacket.parse(caller.audio.recv(2_048)))
            except BlockingIOError:
                break
        audio = [packet for packet in heard if packet.payload_type == 8]
        assert {len(packet.payload) for packet in audio} == {320}, "40 ms of A-law"
        assert audio[1].timestamp - audio[0].timestamp == 320
        assert keys(own.came[0]) == "1#"


async def test_a_call_of_ours_is_answered_heard_and_presses_keys() -> None:
    async with office() as ours, office(rtp_ports=(22_002, 23_000)) as theirs:
        theirs.speaks = True
        uri = f"sip:agent@127.0.0.1:{theirs.endpoint.options.port}"
        leg = await ours.endpoint.dial(uri, headers={"X-Order": "7"})
        assert theirs.calls[0].about["x-order"] == "7"
        loud = 0
        async for entry in leg.frames():
            loud += isinstance(entry, AudioFrame) and float(np.abs(entry.pcm).max()) > 0.1
            if loud == 25:
                break
        await leg.press("12#")
        await eventually(lambda: keys(theirs.came[0]) == "12#")
        await leg.hangup("done")
        ours.endpoint.over(leg)
        await eventually(lambda: any(isinstance(entry, HangUp) for entry in theirs.came[0]))


async def test_a_call_of_ours_that_is_refused_or_given_up_leaves_nothing() -> None:
    async with office() as ours, office(rtp_ports=(22_002, 23_000)) as theirs:
        uri = f"sip:agent@127.0.0.1:{theirs.endpoint.options.port}"
        theirs.refusal = (486, None)
        with pytest.raises(PeerError, match="486"):
            await ours.endpoint.dial(uri, headers={})
        theirs.refusal, theirs.hesitates = None, 1.0
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await ours.endpoint.dial(uri, headers={})
        await asyncio.sleep(1.2)
        assert theirs.calls == [], "it was cancelled before it was taken"
        with pytest.raises(PeerError, match="account"):
            await ours.endpoint.dial("+4930123456", headers={})


@pytest.mark.parametrize(("result", "went"), [("200 OK", "over"), ("404 Not Found", "404")])
async def test_the_other_side_is_asked_to_call_somebody_else_and_tells_how_it_went(result: str, went: str) -> None:
    async with office() as own:
        outcome: list[str] = []

        async def transfer() -> None:
            await eventually(lambda: bool(own.calls))
            await own.calls[0].ready()
            try:
                await own.calls[0].transfer("+4930555")
                outcome.append("over")
            except PeerError as error:
                outcome.append(str(error))
            await own.calls[0].hangup("transferred")

        own.tasks.create_task(transfer())
        await sipp(own, "transfer", "-key", "result", result)
        assert went in outcome[0]
