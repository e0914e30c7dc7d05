"""What has an engine learned of its server, told to the process that goes on with a conversation?

Without it a conversation that is resumed elsewhere would be weighed anew, and a clear could fall a
turn earlier or later than it would have.
"""

from __future__ import annotations

import logging

import orjson

from kvagent.limits import Limits
from kvagent.meter import Meter

logger = logging.getLogger("kvagent")


def told(meter: Meter, limits: Limits) -> str:
    """What was learned so far, as JSON."""
    return orjson.dumps({"meter": meter.learned(), "limits": limits.learned()}).decode()


def resume(record: str, meter: Meter, limits: Limits) -> None:
    """Go on from what another engine learned; a record that cannot be read teaches nothing."""
    try:
        data = orjson.loads(record)
        meter.resume(data["meter"])
        limits.resume(data["limits"])
    except (AttributeError, LookupError, TypeError, ValueError):
        logger.debug("what an engine learned cannot be read; it is learned anew", exc_info=True)
