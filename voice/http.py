"""The HTTP side: console, health, metrics, and the doors through which calls come in."""

import asyncio
import hashlib
import json
import math
from importlib.resources import files
from typing import Any

import structlog
from aiohttp import web
from aiortc import RTCIceServer
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from budget.activity import PROFILES
from budget.admission import Asked
from budget.errors import PeerError
from budget.ids import new_id
from transport import twilio, websocket
from transport.realtime import RealtimeSession
from transport.realtime_events import parse_session
from transport.twilio import TwilioLeg, await_start
from transport.webrtc import WebRtcLeg
from transport.websocket import WebSocketLeg
from voice.app import CallHold, Service
from voice.calls_http import call_routes
from voice.control_http import control_routes
from voice.guard import key_is_good, origin_is_good, presented_key, twilio_signed
from voice.http_problem import problem
from voice.record_keeping import Records

log = structlog.get_logger(__name__)

MOST_OFFER_BYTES = 1 << 18
_SERVICE = web.AppKey("service", Service)
_TASKS = web.AppKey("tasks", asyncio.TaskGroup)
_LEGS = web.AppKey("legs", dict[str, WebRtcLeg])
_OPEN = {"/", "/calls", "/healthz", "/readyz"}
"""Paths that need no key: they show nothing of anybody's."""


def build(service: Service, tasks: asyncio.TaskGroup, records: Records | None = None) -> web.Application:
    """The web application. WebRTC calls outlive their request and run in `tasks`."""
    app = web.Application(middlewares=[_admit], client_max_size=MOST_OFFER_BYTES)
    app[_SERVICE], app[_TASKS], app[_LEGS] = service, tasks, {}
    app.add_routes(
        [
            web.get("/", _console),
            web.get("/calls", _console),
            web.get("/healthz", _healthz),
            web.get("/readyz", _readyz),
            web.get("/metrics", _metrics),
            web.get("/v1/console", _console_facts),
            web.get("/v1/realtime", _realtime),
            web.post("/v1/realtime/calls", _offer),
            web.post("/v1/realtime/calls/{call}/hangup", _hang_up),
            web.get("/twilio", _twilio),
            web.static("/static", str(files("voice") / "web")),
            *call_routes(records),
            *control_routes(service),
        ]
    )
    return app


@web.middleware
async def _admit(request: web.Request, handler: Any) -> web.StreamResponse:
    settings = request.app[_SERVICE].settings
    if not origin_is_good(settings, request):
        return problem(403, "origin_not_allowed", "this web origin may not connect; see allowed_origins")
    public = request.path in _OPEN or request.path.startswith("/static/")
    spoken_later = request.path == "/twilio"  # Twilio can't send headers: its key comes with `start`
    if not public and not spoken_later and not key_is_good(settings, presented_key(request)):
        return problem(401, "invalid_api_key", "a good API key is needed: Authorization: Bearer KEY")
    response: web.StreamResponse = await handler(request)
    return response


# ---- pages and health ------------------------------------------------------------------------


async def _console(request: web.Request) -> web.StreamResponse:
    name = "calls.html" if request.path == "/calls" else "index.html"
    page = (files("voice") / "web" / name).read_text()
    policy = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; media-src 'self' blob:"
    return web.Response(text=page, content_type="text/html", headers={"Content-Security-Policy": policy})


async def _healthz(request: web.Request) -> web.StreamResponse:
    service = request.app[_SERVICE]
    active, admissible, limit = service.promise.places() if service.promise else (0, 0, 0)
    places = {"active": active, "admissible": admissible, "limit": limit}
    return web.json_response({"status": "ok", "calls": active, "places": places})


async def _readyz(request: web.Request) -> web.StreamResponse:
    service = request.app[_SERVICE]
    if service.ready:
        return web.json_response({"status": "ready"})
    return web.json_response({"status": "starting"}, status=503, headers={"Retry-After": "1"})


async def _metrics(request: web.Request) -> web.StreamResponse:
    body = generate_latest(request.app[_SERVICE].observer.registry)
    return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})


async def _console_facts(request: web.Request) -> web.StreamResponse:
    """What the console offers: voices, languages, ICE servers, the budget."""
    service = request.app[_SERVICE]
    engines, settings = service.engines, service.settings
    return web.json_response(
        {
            "voices": list(engines.synthesizer.voices()) if engines else [],
            "languages": sorted(engines.languages) if engines else [],
            "language": settings.asr.language,
            "voice": settings.tts.voice,
            "target_ms": round(settings.call.target * 1000),
            "ice_servers": [
                {"urls": s.urls, "username": s.username, "credential": s.credential.get_secret_value()}
                if s.username
                else {"urls": s.urls}
                for s in settings.webrtc.ice_servers
            ],
        }
    )


# ---- calls -----------------------------------------------------------------------------------


def _hold(request: web.Request, transport: str) -> CallHold | web.Response:
    """A place for the call that asks, or the answer that refuses it."""
    key = presented_key(request)
    owner = hashlib.sha256(key.encode()).hexdigest() if key else request.remote or ""
    named = request.query.get("profile", "")
    profile = named if named in PROFILES else "dialogue"
    hold = request.app[_SERVICE].hold(Asked(owner, profile, request.query.get("priority") == "high", transport))
    if isinstance(hold, CallHold):
        return hold
    status = 429 if hold.reason.own_fault else 503
    return problem(status, hold.reason.value, hold.message, **{"Retry-After": str(math.ceil(hold.retry_after))})


def _model_name(service: Service) -> str:
    return service.settings.llm.model


async def _realtime(request: web.Request) -> web.StreamResponse:
    service = request.app[_SERVICE]
    hold = _hold(request, WebSocketLeg.kind)
    if isinstance(hold, web.Response):
        return hold
    try:
        socket = web.WebSocketResponse(
            protocols=("realtime",), max_msg_size=websocket.MOST_BYTES, heartbeat=websocket.HEARTBEAT
        )
        await socket.prepare(request)
        await service.run(hold, WebSocketLeg(socket, RealtimeSession(_model_name(service))))
        return socket
    finally:
        await hold.release()


async def _twilio(request: web.Request) -> web.StreamResponse:
    service = request.app[_SERVICE]
    by_twilio = twilio_signed(service.settings, request)
    if by_twilio is False:
        return problem(403, "invalid_signature", "the stream is not signed by the account; see twilio.auth_token")
    hold = _hold(request, TwilioLeg.kind)
    if isinstance(hold, web.Response):
        return hold
    try:
        socket = web.WebSocketResponse(max_msg_size=twilio.MOST_BYTES, heartbeat=websocket.HEARTBEAT)
        await socket.prepare(request)
        try:
            stream = await await_start(socket)
        except PeerError as error:
            await socket.close(code=1008, message=str(error).encode()[:120])
            return socket
        assert stream.started is not None
        key = presented_key(request) or stream.started.parameters.get(twilio.KEY, "")
        if not by_twilio and not key_is_good(service.settings, key):
            await socket.close(code=1008, message=b"a good api_key parameter is needed")
            return socket
        await service.run(hold, TwilioLeg(socket, stream))
        return socket
    finally:
        await hold.release()


async def _offer(request: web.Request) -> web.StreamResponse:
    """Three bodies in the wild: raw SDP, JSON with `sdp` and `session`, multipart with both."""
    service = request.app[_SERVICE]
    try:
        sdp, session = await _read_offer(request)
        protocol = RealtimeSession(_model_name(service))
        changes = protocol.change(parse_session(session)) if session is not None else []
    except PeerError as error:
        return problem(400, error.code, str(error))
    hold = _hold(request, WebRtcLeg.kind)
    if isinstance(hold, web.Response):
        return hold
    servers = [
        RTCIceServer(s.urls, s.username or None, s.credential.get_secret_value() or None)
        for s in service.settings.webrtc.ice_servers
    ]
    leg = WebRtcLeg(protocol, servers)
    try:
        answer = await leg.accept(sdp)
    except PeerError as error:
        await hold.release()
        return problem(400, error.code, str(error))
    except BaseException:  # whatever ends the request, its cancellation too, frees the place
        await hold.release()
        raise
    name = new_id("rtc")
    for change in changes:
        leg.queue(change)
    request.app[_LEGS][name] = leg
    request.app[_TASKS].create_task(_run_leg(request.app, name, service, hold, leg))
    headers = {"Location": f"/v1/realtime/calls/{name}"}
    return web.Response(text=answer, content_type="application/sdp", status=201, headers=headers)


async def _run_leg(app: web.Application, name: str, service: Service, hold: CallHold, leg: WebRtcLeg) -> None:
    try:
        await service.run(hold, leg)
    finally:
        app[_LEGS].pop(name, None)


async def _read_offer(request: web.Request) -> tuple[str, object]:
    try:
        if request.content_type == "application/json":
            body = await request.json()
            if not isinstance(body, dict):
                raise PeerError("invalid_offer", "the JSON body is an object with sdp and session")
            return str(body.get("sdp", "")), body.get("session")
        if request.content_type.startswith("multipart/"):
            form = await request.post()
            session = form.get("session")
            return str(form.get("sdp", "")), json.loads(str(session)) if session else None
        return await request.text(), None
    except (ValueError, UnicodeError) as error:
        raise PeerError("invalid_offer", "the body can't be read: send SDP, or JSON or a form with sdp") from error


async def _hang_up(request: web.Request) -> web.StreamResponse:
    leg = request.app[_LEGS].get(request.match_info["call"])
    if leg is None:
        return problem(404, "call_not_found", "there is no such call")
    await leg.hangup("hung up by request")
    return web.Response(status=200)
