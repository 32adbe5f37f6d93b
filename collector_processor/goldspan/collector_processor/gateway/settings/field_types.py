"""Addresses to listen on."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Self
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PlainSerializer,
    Strict,
    Tag,
    WithJsonSchema,
    model_validator,
)

from goldspan.scoring.errors import SettingsError
from goldspan.scoring.json_values import shown


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """A host and a port; port 0 is any free one."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `host:port`, `[::1]:port`. Raises ValueError, which says what was expected."""
        host, colon, port = text.strip().rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        number = int(port) if port.isascii() and port.isdecimal() and len(port) <= 5 else -1
        if not colon or not host or not 0 <= number <= 65_535:
            raise ValueError("expected host:port, such as 127.0.0.1:4318")
        return cls(host, number)

    @property
    def address(self) -> str:
        """As it was written."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        return self.address


# What the sections of the gateway's settings are made of: sizes and times with units, addresses, secrets by place.

_SIZES = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}
_TIMES = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_WITH_UNIT = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([A-Za-z]*)")
_HEADER = re.compile(r"[a-z0-9][a-z0-9._-]*")
_OURS_OR_HOP_BY_HOP = re.compile(
    r"connection|content-.*|cookie|expect|grpc-.*|host|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade"
    r"|user-agent|.*-bin"
)


class Section(BaseModel):
    """A frozen mapping of known fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, validate_default=False)


def _of_unit(value: object, units: Mapping[str, float], example: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        number = float(value)
    else:
        found = _WITH_UNIT.fullmatch(value.strip()) if isinstance(value, str) else None
        if found is None or found[2].lower() not in units:
            raise ValueError(f"found {shown(value)}, expected {example}")
        number = float(found[1]) * units[found[2].lower()]
    if not 0 < number < float("inf"):
        raise ValueError(f"found {shown(value)}, expected more than 0")
    return number


def _size(value: object) -> int:
    return max(1, int(_of_unit(value, _SIZES, "bytes, as a number or as 20MiB")))


def _seconds(value: object) -> float:
    return _of_unit(value, _TIMES, "seconds, as a number or as 500ms, 30s, 5m, 1h")


def _listen(value: object) -> object:
    if value is None or isinstance(value, ListenAddress) or value == "":
        return value or None
    try:
        return ListenAddress.parse(str(value))
    except ValueError as error:
        raise ValueError(f"found {shown(value)}, {error}") from None


def _endpoint(value: object) -> object:
    text = value if isinstance(value, str) else ""
    try:
        parts = urlsplit(text)
        good = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        good = False
    if not good:
        raise ValueError(f"found {shown(value)}, expected a URL such as http://localhost:4318")
    return text


def _forwarded(value: object) -> object:
    """Check a name of the allow-list of headers."""
    name = value.strip().lower() if isinstance(value, str) else ""
    if not _HEADER.fullmatch(name):
        raise ValueError(f"found {shown(value)}, expected the name of a header, such as x-scope-orgid")
    if _OURS_OR_HOP_BY_HOP.fullmatch(name):
        raise ValueError(f"found {shown(value)}: this header belongs to one connection and is never forwarded")
    return name


def _list(value: object) -> object:
    """Let one value stand for a list of one, and a text with commas for a list: for variables."""
    return [one.strip() for one in value.split(",") if one.strip()] if isinstance(value, str) else value


Size = Annotated[int, BeforeValidator(_size), WithJsonSchema({"type": ["integer", "string"]})]
"""Bytes: a number, or a number with a unit, as in `20MiB`."""
Seconds = Annotated[float, BeforeValidator(_seconds), WithJsonSchema({"type": ["number", "string"]})]
"""Seconds: a number, or a number with a unit, as in `5m`."""
Count = Annotated[int, Field(ge=1)]
"""1 or more."""
Address = Annotated[
    ListenAddress | None,
    BeforeValidator(_listen),
    PlainSerializer(lambda listen: listen and str(listen)),
    WithJsonSchema({"type": ["string", "null"]}),
]
"""`host:port`, or null for none."""
Endpoint = Annotated[str, BeforeValidator(_endpoint)]
"""A URL of HTTP."""
HeaderName = Annotated[str, BeforeValidator(_forwarded)]
"""A header that may be forwarded, in lower case."""
_ONE_OR_MORE = WithJsonSchema({"type": ["array", "string"], "items": {"type": "string"}})
HeaderNames = Annotated[tuple[HeaderName, ...], BeforeValidator(_list), _ONE_OR_MORE]
"""A list of headers, or a text of names with commas between."""
Texts = Annotated[tuple[str, ...], BeforeValidator(_list), _ONE_OR_MORE]
"""A list of texts, or a text with commas between."""
Paths = Annotated[tuple[Path, ...], BeforeValidator(_list), _ONE_OR_MORE]
"""A list of files or folders, or one of them."""


class Secret(Section):
    """A secret, by the place where it is: it is neither in the settings nor ever printed."""

    env: str | None = None
    """The environment variable that holds it."""
    file: Path | None = None
    """The file that holds it, and nothing else."""

    @model_validator(mode="after")
    def _one_place(self) -> Secret:
        if (self.env is None) == (self.file is None):
            raise ValueError("expected one of `env`, the name of a variable, and `file`")
        return self

    def read(self, environ: Mapping[str, str]) -> str:
        """Return the secret. Raises SettingsError, which names the place and not what is there."""
        if self.env is not None:
            place, text = f"the variable {self.env}", environ.get(self.env, "")
        else:
            path = self.file or Path()
            place = f"the file {path}"
            try:
                text = path.read_text("utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise SettingsError(f"{place} cannot be read: {getattr(error, 'strerror', None) or error}") from None
        text = text.strip()
        if not text.isascii() or not text.isprintable() or not text:
            raise SettingsError(f"{place} holds no secret: expected one line of printable ASCII")
        return text


def _kind_of_secret(value: Any) -> str:
    return "place" if isinstance(value, Mapping | Secret) else "text"


def _pairs(value: object) -> object:
    """Read `name=value,name=value`, as in OTEL_EXPORTER_OTLP_HEADERS: for variables."""
    if not isinstance(value, str):
        return value
    pairs = [pair.partition("=") for pair in value.split(",") if pair.strip()]
    if any(not (name.strip() and equals) for name, equals, _ in pairs):
        raise ValueError("expected name=value pairs with commas between")
    return {name.strip(): text.strip() for name, _, text in pairs}


def _sendable(headers: Mapping[str, str | Secret]) -> Mapping[str, str | Secret]:
    for name, value in headers.items():
        if not _HEADER.fullmatch(name.lower()):
            raise ValueError(f"found {shown(name)}, expected the name of a header, such as x-api-key")
        if isinstance(value, str) and not (value.isascii() and value.isprintable()):
            raise ValueError(f"the value of {name} has characters that no header can have, expected printable ASCII")
    return headers


SecretText = Annotated[
    Annotated[str, Strict(), Tag("text")] | Annotated[Secret, Tag("place")], Discriminator(_kind_of_secret)
]
"""Text, or the place of a secret."""
HeaderValues = Annotated[Mapping[str, SecretText], BeforeValidator(_pairs), AfterValidator(_sendable)]
"""Headers to send, by name."""
