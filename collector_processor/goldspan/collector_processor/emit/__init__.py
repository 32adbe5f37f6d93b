"""How results are emitted: span attributes, `gen_ai.evaluation.result` events, metric points and trace files.

`names` declares every emitted name, `evaluation` the value that all others write.
"""

from __future__ import annotations
