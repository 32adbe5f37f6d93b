"""What the gateway says of itself: one line for each thing, whatever strangers put into it."""

from __future__ import annotations

import io
import json
import logging

import pytest

from goldspan.collector_processor.serving.process import JsonLines, TextLines, configure_logs

NASTY = 'a\nb\r{"level": "error"}\x1b[31m \u2028 ü'


def logged(formatter: logging.Formatter, *, error: bool = False) -> str:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    logger = logging.Logger("goldspan.gateway")
    logger.addHandler(handler)
    try:
        if error:
            raise ValueError(NASTY)
        logger.warning("found %s", NASTY, extra={"door": "http", "mistakes": ["x", 1], "odd": {1, 2}})
    except ValueError:
        logger.exception("it failed")
    return stream.getvalue()


def test_json_is_one_object_on_a_line() -> None:
    text = logged(JsonLines())
    assert text.count("\n") == 1
    line = json.loads(text)
    assert (line["level"], line["logger"], line["message"]) == ("warning", "goldspan.gateway", f"found {NASTY}")
    assert (line["door"], line["mistakes"]) == ("http", ["x", 1])
    assert line["time"].endswith("Z")


def test_an_exception_stays_on_its_line() -> None:
    text = logged(JsonLines(), error=True)
    assert text.count("\n") == 1
    assert "ValueError" in json.loads(text)["exception"]


@pytest.mark.parametrize("error", [False, True])
def test_text_indents_what_is_not_a_line_of_its_own(error: bool) -> None:
    first, *rest = logged(TextLines(), error=error).removesuffix("\n").split("\n")
    assert first.endswith("it failed" if error else "found a")
    assert rest
    assert all(line.startswith("  ") for line in rest)
    assert "\r" not in "".join(rest)


def test_a_log_that_cannot_be_written_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    said = io.StringIO()

    class Full(io.StringIO):
        def write(self, text: str) -> int:
            if "Logging error" in text or "Traceback" in text:
                return said.write(text)
            raise OSError(28, "No space left on device")

    before, level = logging.root.handlers[:], logging.root.level
    monkeypatch.setattr("sys.stderr", Full())
    try:
        configure_logs("info", "json")
        logging.getLogger("goldspan.gateway").warning("the disk is full")
    finally:
        logging.root.handlers[:], logging.root.level = before, level
    assert said.getvalue() == ""
