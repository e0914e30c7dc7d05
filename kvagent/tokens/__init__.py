"""How many tokens has a text?

Counters behind one callable: text in, tokens out. Until a model's own tokenizer is given, a
general one stands in, and the meter corrects its counts by the server's.
"""

from __future__ import annotations

from kvagent.tokens.estimate import count_tokens

__all__ = ["count_tokens"]
