"""Is vLLM set up once, and again where that was cut short?"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.vllm.setup_vllm import done


def test_what_is_complete_is_kept_and_what_is_not_is_made_again(tmp_path: Path) -> None:
    mark, made = tmp_path / "mark", list[str]()

    def fail() -> None:
        made.append("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        done(mark, "1", fail)
    done(mark, "1", lambda: made.append("whole"))
    done(mark, "1", lambda: made.append("never"))
    with pytest.raises(KeyboardInterrupt):
        done(mark, "2", fail)
    done(mark, "2", lambda: made.append("new"))
    assert made == ["half", "whole", "half", "new"]
