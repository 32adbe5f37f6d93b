"""JSON values out of a text: one document, several one after another, or one a line, told apart by content.

Lines are read one at a time, so that memory is bounded by the longest line; a document that spans several lines is
read as a whole. What cannot be read is a problem with its line, and everything good beside it is read.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from typing import IO

from goldspan.mappers.readers.problems import BAD_JSON, OnProblem
from goldspan.mappers.readers.salvage import salvage
from goldspan.scoring.errors import Problem

Loads = Callable[[bytes], object]
"""`json.loads`, or something that raises like it and tells lists and scalars as it does."""

_MAX_TEXT = 512 << 20
"""The longest line, and the longest document, that is read: so much memory a text may take, and no more."""
_CHUNK = 1 << 20
_BOM = b"\xef\xbb\xbf"
_OPENINGS = (b"{", b"[")
_NO_OBJECT = (str, int, float, list, type(None))
_TORN = (ValueError, RecursionError)
_decode = json.JSONDecoder().raw_decode
_Line = tuple[int, bytes]


def may_be_json(start: bytes) -> bool:
    """Tell by its first bytes whether a text may be JSON that holds spans."""
    return start.removeprefix(_BOM).lstrip()[:1] in (b"{", b"[", b'"')


class JsonText:
    """Reads the values of one file; `place` names it in problems."""

    def __init__(self, place: str, on_problem: OnProblem, loads: Loads = json.loads) -> None:
        self._place = place
        self._on_problem = on_problem
        self._loads = loads
        self.first_problem = ""

    def values(self, stream: IO[bytes]) -> Iterator[tuple[object, str]]:
        """Yield each value with its file and line, and what can be saved of values that are not whole."""
        lines = self._lines(stream)
        first = next(lines, None)
        if first is None:
            return
        try:
            value = self._loads(first[1])
        except _TORN:
            yield from self._after_bad_first_line(first, lines)
            return
        yield value, f"{self._place}:{first[0]}"
        yield from self._further_lines(lines)

    def _lines(self, stream: IO[bytes]) -> Iterator[_Line]:
        """Yield each line that is not blank with its number."""
        number = 0
        while line := stream.readline(_MAX_TEXT):
            number += 1
            if len(line) == _MAX_TEXT and not line.endswith(b"\n"):
                self._problem(number, f"is longer than {_MAX_TEXT:,} bytes; the line is not read")
                while (rest := stream.readline(_CHUNK)) and not rest.endswith(b"\n"):
                    pass
            elif text := line.strip():
                yield number, text

    def _after_bad_first_line(self, first: _Line, lines: Iterator[_Line]) -> Iterator[tuple[object, str]]:
        """Tell a torn line from the first line of a document over several lines, by the line after it."""
        second = next(lines, None)
        if second is not None and first[1] not in _OPENINGS:
            try:
                value = self._loads(second[1])
            except _TORN:
                value = None
            if not isinstance(value, _NO_OBJECT):
                yield from self._torn_line(*first)
                yield value, f"{self._place}:{second[0]}"
                yield from self._further_lines(lines)
                return
        if not may_be_json(first[1]):
            # Neither a document nor a line of JSON: lines that follow may still be.
            yield from self._torn_line(*first)
            if second is not None:
                yield from self._torn_line(*second)
            yield from self._further_lines(lines)
            return
        whole: list[bytes] = [first[1]]
        last, size = first[0], len(first[1])
        for number, line in lines if second is None else itertools.chain([second], lines):
            whole.append(b"\n" * (number - last) + line)
            last = number
            size += len(line)
            if size > _MAX_TEXT:
                self._problem(number, f"the document is longer than {_MAX_TEXT:,} bytes; what follows is not read")
                break
        yield from self._document(b"".join(whole), first[0])

    def _document(self, text: bytes, line: int) -> Iterator[tuple[object, str]]:
        try:
            value = self._loads(text)
        except _TORN:
            yield from self._documents(text.decode("utf-8-sig", errors="replace"), line)
        else:
            yield value, self._place

    def _documents(self, text: str, line: int) -> Iterator[tuple[object, str]]:
        """Read several documents one after another, or as much as can be read of one."""
        position = 0
        while position < len(text):
            try:
                value, end = _decode(text, position)
            except _TORN as error:
                at = getattr(error, "pos", position)
                self._problem(line + text.count("\n", 0, at), f"is not whole JSON: {_reason(error)}")
                for saved in salvage(text[position:]):
                    yield saved, self._place
                return
            yield value, self._place
            position = end
            while position < len(text) and text[position] in " \t\r\n,":
                position += 1

    def _further_lines(self, lines: Iterator[_Line]) -> Iterator[tuple[object, str]]:
        for number, line in lines:
            try:
                value = self._loads(line)
            except _TORN:
                yield from self._torn_line(number, line)
            else:
                yield value, f"{self._place}:{number}"

    def _torn_line(self, number: int, line: bytes) -> Iterator[tuple[object, str]]:
        text = line.decode("utf-8-sig", errors="replace")
        try:
            json.loads(text)
            reason = "holds bytes that are not UTF-8"
        except _TORN as error:
            reason = f"is not whole JSON: {_reason(error)}"
        self._problem(number, reason)
        for saved in salvage(text):
            yield saved, f"{self._place}:{number}"

    def _problem(self, line: int, message: str) -> None:
        self.first_problem = self.first_problem or message
        self._on_problem(Problem(BAD_JSON, message, f"{self._place}:{line}"))


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at character {error.colno}"
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)
