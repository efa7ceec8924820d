"""The HTTP side of call records: the list, one call with its turns, its recording, deletion."""

import asyncio
import re

from aiohttp import web

from voice.http_problem import problem
from voice.record_keeping import Records

MOST_A_PAGE = 200
_NAME = re.compile(r"call_[A-Za-z0-9_-]{1,35}")


def call_routes(records: Records | None) -> list[web.RouteDef]:
    """The routes; where no records are kept they answer 404 and say so."""
    doors = _Doors(records)
    return [
        web.get("/v1/calls", doors.listed),
        web.get("/v1/calls/{call}", doors.shown),
        web.get("/v1/calls/{call}/recording", doors.recording),
        web.delete("/v1/calls/{call}", doors.deleted),
    ]


class _Doors:
    def __init__(self, records: Records | None) -> None:
        self._records = records

    async def listed(self, request: web.Request) -> web.StreamResponse:
        """The newest calls; `limit` of them, older than the call `before`."""
        if self._records is None:
            return _none_kept()
        limit, before = request.query.get("limit", "50"), request.query.get("before", "")
        if not limit.isascii() or not limit.isdigit() or not 1 <= int(limit) <= MOST_A_PAGE:
            return problem(400, "invalid_value", f"limit is a number from 1 to {MOST_A_PAGE}")
        if before and not _NAME.fullmatch(before):
            return problem(400, "invalid_value", "before is a call's id")
        calls = await asyncio.to_thread(self._records.store.page, limit=int(limit), before=before)
        for call in calls:
            call["recording"] = self._records.recording(call["id"]) is not None
        following = calls[-1]["id"] if len(calls) == int(limit) else None
        return web.json_response({"calls": calls, "before": following})

    async def shown(self, request: web.Request) -> web.StreamResponse:
        """One call with its turns."""
        name = request.match_info["call"]
        if self._records is None:
            return _none_kept()
        call = await asyncio.to_thread(self._records.store.call, name) if _NAME.fullmatch(name) else None
        if call is None:
            return _unknown()
        return web.json_response({**call, "recording": self._records.recording(name) is not None})

    async def recording(self, request: web.Request) -> web.StreamResponse:
        """The sound of one call."""
        name = request.match_info["call"]
        if self._records is None:
            return _none_kept()
        file = self._records.recording(name) if _NAME.fullmatch(name) else None
        return _unknown() if file is None else web.FileResponse(file, headers={"Content-Type": "audio/ogg"})

    async def deleted(self, request: web.Request) -> web.StreamResponse:
        """Delete one call, its turns and its recording."""
        name = request.match_info["call"]
        if self._records is None:
            return _none_kept()
        if not _NAME.fullmatch(name) or not await asyncio.to_thread(self._records.delete, name):
            return _unknown()
        return web.Response(status=204)


def _none_kept() -> web.Response:
    return problem(404, "no_records", "this service keeps no call records (records.days is 0)")


def _unknown() -> web.Response:
    return problem(404, "call_not_found", "there is no such call, or nothing of the kind is kept of it")
