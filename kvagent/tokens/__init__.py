"""How many tokens has a text, and which ones has a request?

Until a model's own tokenizer is given, a general one stands in, and the meter corrects its counts
by the server's. With the model's files, or its server, the very tokens are known.
"""

from __future__ import annotations

from kvagent.tokens.counter import ESTIMATE, Counter, Estimate
from kvagent.tokens.estimate import count_tokens

__all__ = ["ESTIMATE", "Counter", "Estimate", "count_tokens"]
