"""How does a client of the OpenAI SDK keep its prompts cached?"""

from __future__ import annotations

__all__: list[str] = []
