"""How often is a rule tried on an engine with a store?"""

from __future__ import annotations

from hypothesis import HealthCheck, settings

rule = settings(
    derandomize=True,
    deadline=None,
    max_examples=15,
    suppress_health_check=[HealthCheck.too_slow],
)
