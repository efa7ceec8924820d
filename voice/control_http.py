"""The HTTP side of call control: what a client may do with a call in progress, of whatever transport.

An answer comes when the thing was done. Whoever asks must have the service's key, as for everything else.
"""

import asyncio

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from budget.errors import PeerError
from transport.requests import LONGEST_REST, MOST_KEYS, Act, Action, Part, ReadKeys, Rest, SendKeys, Transfer
from voice.app import Service
from voice.http_problem import problem

_PATIENCE = 150.0
"""Seconds that a thing may take: the agent finishes what it says, then a transfer or a hold takes its time."""

_USUAL = ReadKeys()


class _Wish(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    say: str = Field("", max_length=500)

    def action(self) -> Action:
        """What is to be done."""
        return Part()


class _TransferWish(_Wish):
    to: str = Field(min_length=1, max_length=200, pattern=r"^[^\s<>\"]+$")

    def action(self) -> Action:
        return Transfer(self.to)


class _PressWish(_Wish):
    keys: str = Field(pattern=r"^[0-9*#A-D]{1,32}$")

    def action(self) -> Action:
        return SendKeys(self.keys)


class _KeysWish(_Wish):
    most: int = Field(_USUAL.most, ge=1, le=MOST_KEYS)
    terminator: str = Field(_USUAL.terminator, max_length=1)
    pause: float = Field(_USUAL.pause, gt=0, le=30)
    patience: float = Field(_USUAL.patience, gt=0, le=60)

    def action(self) -> Action:
        return ReadKeys(self.most, self.terminator, self.pause, self.patience)


class _HoldWish(_Wish):
    seconds: float = Field(30.0, gt=0, le=LONGEST_REST)

    def action(self) -> Action:
        return Rest(self.seconds)


_WISHES: dict[str, type[_Wish]] = {
    "hangup": _Wish,
    "transfer": _TransferWish,
    "press": _PressWish,
    "keys": _KeysWish,
    "hold": _HoldWish,
}


def control_routes(service: Service) -> list[web.RouteDef]:
    """`POST /v1/calls/{call}/hangup`, `transfer`, `press`, `keys` and `hold`."""

    async def act(request: web.Request) -> web.StreamResponse:
        call = service.call(request.match_info["call"])
        if call is None:
            return problem(404, "call_not_found", "there is no such call in progress")
        try:
            wish = _WISHES[request.match_info["wish"]].model_validate_json(await request.read() or b"{}")
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            where = ".".join(map(str, first["loc"]))
            return problem(400, "invalid_value", f"{where}: {first['msg']}")
        done: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        call.post(Act(wish.action(), wish.say, done))
        try:
            async with asyncio.timeout(_PATIENCE):
                outcome = await done
        except TimeoutError:
            return problem(504, "not_done", f"not done within {_PATIENCE:.0f} s: the caller or the agent speaks")
        except PeerError as error:
            return problem(409, error.code, str(error))
        return web.json_response({"result": outcome})

    return [web.post(f"/v1/calls/{{call}}/{{wish:{'|'.join(_WISHES)}}}", act)]
