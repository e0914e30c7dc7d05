"""What counts tokens, and does it say whether it is exact?"""

from __future__ import annotations

import subprocess
import sys

from kvagent.tokens import ESTIMATE, Counter, Estimate, count_tokens
from kvagent.tokens.model import Model


def test_the_estimate_says_so() -> None:
    counter: Counter = ESTIMATE
    assert not counter.exact
    assert counter.name == "estimate: cl100k"
    text = "Grüß Gott, 1234567! " * 5
    assert Estimate().count(text) == count_tokens(text) > 0


def test_a_model_is_a_counter() -> None:
    assert Model.exact
    assert {"name", "count"} <= {*dir(Model)}


def test_counting_needs_no_template_engine() -> None:
    """Nor does importing the package: both are loaded once somebody has a model."""
    code = (
        "import sys, kvagent, kvagent.tokens, kvagent.tokens.model, kvagent.tokens.server\n"
        "print(*{'jinja2', 'tokenizers'} & {*sys.modules})"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == ""
