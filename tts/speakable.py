"""What a person would say for a piece of written text: no markdown, no symbols read out, numbers whole.

Pure. Returns an empty string where nothing is to be said (emoji, a code block, a lone bullet).
"""

import re
import unicodedata

_SPOKEN = [
    (re.compile(r"\bDr\.(?=\s+[A-Z])"), "Doctor"),
    (re.compile(r"\bMr\."), "Mister"),
    (re.compile(r"\bMrs\."), "Missus"),
    (re.compile(r"\bMs\."), "Miss"),
    (re.compile(r"\bProf\."), "Professor"),
    (re.compile(r"\bSt\.(?=\s+[A-Z])"), "Saint"),
    (re.compile(r"\bNo\.(?=\s+\d)"), "number"),
    (re.compile(r"\be\.\s?g\.,?", re.I), "for example,"),
    (re.compile(r"\bi\.\s?e\.,?", re.I), "that is,"),
    (re.compile(r"\betc\."), "et cetera"),
    (re.compile(r"\bvs\."), "versus"),
    (re.compile(r"\b([ap])\.\s?m\.", re.I), r"\1 m"),
    (re.compile(r"\bv(\d+(?:\.\d+)+)\b"), r"version \1"),
]
_UNITS = {
    "°C": "degrees Celsius",
    "°F": "degrees Fahrenheit",
    "GHz": "gigahertz",
    "MHz": "megahertz",
    "kHz": "kilohertz",
    "Hz": "hertz",
    "km/h": "kilometres an hour",
    "mph": "miles an hour",
    "km": "kilometres",
    "cm": "centimetres",
    "mm": "millimetres",
    "kg": "kilograms",
    "GB": "gigabytes",
    "MB": "megabytes",
}
_UNIT = re.compile(r"(?<=\d)\s?(" + "|".join(re.escape(u) for u in _UNITS) + r")(?![A-Za-z])")
_CURRENCY = {"$": "dollars", "€": "euros", "£": "pounds", "¥": "yen"}
_MONEY = re.compile(r"([$€£¥])\s?(\d+(?:\.\d+)?)(\s(?:thousand|million|billion|trillion))?")
_URL = re.compile(r"(?:https?://|www\.)[^\s<>\"')\]]+", re.I)
_EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")


def speakable(text: str, language: str = "en") -> str:
    """The text as a person would say it, on one line."""
    said = _without_code(text)
    said = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", said)
    said = _URL.sub(lambda m: _address(m.group(), language), said)
    said = _EMAIL.sub(lambda m: m.group().replace("@", " at ").replace(".", " dot "), said)
    said = _without_markdown(said)
    said = _numbers(said)
    if language.startswith("en"):
        said = _english(said)
    said = "".join(c for c in said if not _is_picture(c))
    said = re.sub(r"\s+([,.;:!?。，！？；：、])", r"\1", re.sub(r"\s+", " ", said)).strip()
    said = re.sub(r"[:：]$", ".", said)
    return said if any(c.isalnum() for c in said) else ""


def _without_code(text: str) -> str:
    """Code blocks go, code words stay."""
    text = re.sub(r"```.*?(?:```|$)", " ", text, flags=re.S)
    return re.sub(r"`([^`]*)`", r"\1", text).replace("`", "")


def _without_markdown(text: str) -> str:
    text = re.sub(r"^\s*(?:#{1,6}\s+|[-*+•]\s+|>\s?|(\d+)[.)]\s+(?=\S))", _line_start, text, flags=re.M)
    text = re.sub(r"(?m)^\s*([-*_=]\s*){3,}$", " ", text)
    text = re.sub(r"(\*\*|__|~~|\*)", "", text)
    text = re.sub(r"(?<!\w)_|_(?!\w)", "", text).replace("_", " ")
    text = re.sub(r"(?m)^\s*\|?[\s:|-]{3,}\|?\s*$", " ", text)
    return re.sub(r"\s*\|\s*", ", ", text).replace("<br>", " ")


def _line_start(match: re.Match[str]) -> str:
    number = match.group(1)
    return f"{number}, " if number else ""


def _numbers(text: str) -> str:
    """Full-width digits narrow, long figures digit by digit, thousands without separators, decimal commas as points."""
    text = re.sub(r"[０-９][０-９，．,.]*[０-９]|[０-９]", lambda m: unicodedata.normalize("NFKC", m.group()), text)
    text = re.sub(r"(?<![\d.,])\d{8,}(?![\d,]|\.\d)", lambda m: " ".join(m.group()), text)
    text = re.sub(r"\d{1,3}(?:,\d{3})+(?!\d)", lambda m: m.group().replace(",", ""), text)
    return re.sub(r"(?<![\d,.])(\d+),(\d{1,2})(?![\d,])", r"\1.\2", text)


def _english(text: str) -> str:
    for pattern, spoken in _SPOKEN:
        text = pattern.sub(spoken, text)
    text = _MONEY.sub(lambda m: f"{m.group(2)}{m.group(3) or ''} {_CURRENCY[m.group(1)]}", text)
    text = _UNIT.sub(lambda m: " " + _UNITS[m.group(1)], text)
    text = re.sub(r"(?<=\d)\s?%", " percent", text)
    text = re.sub(r"(?<=\d)\.(?=\d)", " point ", _spell_decimals(text))
    text = re.sub(r"\b((?:[A-Z]\.){2,})", lambda m: m.group().replace(".", " ").rstrip() + " ", text)
    text = re.sub(r"\s&\s", " and ", text)
    return re.sub(r"\s=\s", " equals ", text)


def _spell_decimals(text: str) -> str:
    """Digits after a decimal point one by one, as people say them: 3.14 is three point one four."""
    return re.sub(r"(?<=\d\.)\d{2,}", lambda m: " ".join(m.group()), text)


def _address(url: str, language: str) -> str:
    """A link as its host: nobody says the path."""
    tail = re.search(r"[.,;:!?]+$", url)
    host = re.sub(r"^(?:https?://)?(?:www\.)?", "", url, flags=re.I).split("/")[0].rstrip(".,;:!?")
    dot = " 点 " if language.startswith("zh") else " dot "
    return host.replace(".", dot) + (tail.group() if tail else "")


def _is_picture(c: str) -> bool:
    """Emoji, arrows and other signs that no voice should name."""
    if c in "°%+=&$€£¥<>^~|":
        return c in "<>^~|"
    return unicodedata.category(c) in ("So", "Cs", "Co", "Cn", "Cf", "Sk") or c in "\ufe0f\u20e3"
