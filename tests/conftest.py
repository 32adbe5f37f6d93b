"""How the properties are tried: the gate tries the same examples each time, a person's machine new ones."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# A busy machine is slow; that says nothing about the code.
settings.register_profile("person", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("gate", parent=settings.get_profile("person"), derandomize=True)
settings.load_profile("gate" if os.environ.get("CI") else "person")
