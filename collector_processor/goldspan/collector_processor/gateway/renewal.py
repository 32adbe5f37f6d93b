"""Secrets and certificates of a running gateway: read again when their files change, or when it is told to."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from pydantic import BaseModel

from goldspan.collector_processor.gateway.golden_files import fingerprint
from goldspan.collector_processor.gateway.settings import ClientCertificate, ServerCertificate
from goldspan.collector_processor.gateway.settings_fields import Secret
from goldspan.mappers.json_shapes import is_mapping, is_sequence
from goldspan.scoring.errors import SettingsError

_logger = logging.getLogger("goldspan.gateway")


class Renewal:
    """Calls `renew` when one of the files has changed; what cannot be used is refused, and the old stays in use."""

    def __init__(self, files: tuple[Path, ...], renew: Callable[[], None]) -> None:
        """Take `renew`, which raises SettingsError before it changes anything."""
        self._files = files
        self._renew = renew
        self._seen = fingerprint(files)
        self._lock = threading.Lock()

    def check(self) -> None:
        """Renew if one of the files has changed since they were read, or refused, last."""
        if self._files and fingerprint(self._files) != self._seen:
            self.reload()

    def reload(self) -> None:
        """Renew."""
        with self._lock:
            self._seen = fingerprint(self._files)
            try:
                self._renew()
            except SettingsError as error:
                _logger.warning("secrets and certificates are refused, the old ones stay: %s", error)
            else:
                _logger.info("secrets and certificates were read anew")


def secret_files(settings: BaseModel) -> Iterator[Path]:
    """Yield every file that settings name for a secret or a certificate."""
    of_secrets = isinstance(settings, ClientCertificate | Secret | ServerCertificate)
    for name in type(settings).model_fields:
        for one in _parts(getattr(settings, name)):
            if of_secrets and isinstance(one, Path):
                yield one
            elif isinstance(one, BaseModel):
                yield from secret_files(one)


def _parts(value: object) -> Iterable[object]:
    if is_mapping(value):
        return value.values()
    return value if is_sequence(value) else (value,)
