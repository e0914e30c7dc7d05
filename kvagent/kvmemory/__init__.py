"""How much memory does a KV cache take, what fits, and how fast can it be served?

Pure arithmetic on a model's sizes: no server, no GPU, no network.
"""

from __future__ import annotations
