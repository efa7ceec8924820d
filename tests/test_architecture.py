"""The limits that keep the code readable, checked mechanically. Import layers are import-linter's (`make lint`)."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("voice", "vad", "asr", "llm", "tts", "transport", "budget", "loadtest")
MODULES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
CORES = (
    "voice/turn_taking.py",
    "voice/dialogue.py",
    "asr/agreement.py",
    "asr/incremental.py",
    "asr/guards.py",
    "tts/clauses.py",
    "tts/speakable.py",
    "transport/realtime.py",
    "transport/realtime_notices.py",
    "transport/g711.py",
    "llm/prompt.py",
    "vad/speech.py",
    "vad/turn_end.py",
    "budget/deadline.py",
)
GPL = {"piper", "espeakng", "phonemizer", "kokoro"}
"""Under that licence themselves or, as `kokoro` does, importing what is."""
NAMELESS = {"utils", "helpers", "common", "misc", "manager", "types", "models"}


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def code_lines(node: ast.AST, source: list[str]) -> int:
    """Lines of a function that are neither blank, comment nor docstring."""
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    if not body:
        return 0
    lines = source[node.lineno - 1 : body[0].lineno - 1] if ast.get_docstring(node) is None else []
    lines = lines + source[body[0].lineno - 1 : node.end_lineno]
    return sum(1 for line in lines if line.strip() and not line.strip().startswith("#"))


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_modules_functions_and_classes_stay_small(path: Path) -> None:
    text = path.read_text()
    source, tree = text.splitlines(), ast.parse(text)
    assert len(source) <= 400
    assert path.stem not in NAMELESS
    assert ast.get_docstring(tree) or path.stat().st_size == 0, "a module says its one job"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert code_lines(node, source) <= 40, f"{node.name} is too long"
        elif isinstance(node, ast.ClassDef):
            methods = [n for n in node.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
            public = [n for n in methods if not n.name.startswith("_")]
            assert len(public) <= 12, f"{node.name} does too much"


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_no_queue_is_unbounded(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func).split("[")[0]
            assert not (called.endswith("Queue") and not node.args and not node.keywords), f"line {node.lineno}"


@pytest.mark.parametrize("core", CORES)
def test_cores_know_no_loop_and_no_clock(core: str) -> None:
    tree = ast.parse((ROOT / core).read_text())
    imported = {
        (alias.name if isinstance(node, ast.Import) else node.module or "").split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert not imported & {"asyncio", "threading", "time", "socket", "datetime"}
    assert not any(isinstance(node, ast.Await | ast.AsyncFunctionDef) for node in ast.walk(tree))


def test_gpl_programs_are_never_imported_by_the_service() -> None:
    for path in MODULES:
        if name(path) in ("tts/piper_worker.py", "tts/kokoro_worker.py"):  # processes of their own
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            modules += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not any(module.split(".")[0] in GPL for module in modules), name(path)
