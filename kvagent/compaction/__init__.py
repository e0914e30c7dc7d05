"""What is left of old turns when they leave the prompt?"""

from __future__ import annotations

from kvagent.compaction.facts import NO_FACTS, Facts, facts_of
from kvagent.compaction.summary import Summarizer, SummaryFailed, SummaryReply

__all__ = ["NO_FACTS", "Facts", "Summarizer", "SummaryFailed", "SummaryReply", "facts_of"]
