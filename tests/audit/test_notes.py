"""Does a report say what its figures leave out, and only that?"""

from __future__ import annotations

from typing import Any

import pytest

from kvagent.audit.prediction import Target
from kvagent.audit.transcript import Hashed, Place, Reported, Request, Unreadable
from kvagent.audit.turns import Analysis
from tests.audit.logs import SYSTEM, Message, reply, request, user
from tests.audit.rules.audited import session


def log(count: int = 3, **more: Any) -> list[Request]:
    messages: list[Message] = [SYSTEM, user("Please look into it.")]
    requests = []
    for step in range(count):
        requests.append(request(messages, step + 1, **more))
        messages = [*messages, reply(f"step {step}"), user("go on")]
    return requests


def said(items: object, analysis: Analysis | None = None) -> str:
    return "\n".join(session(items, analysis, []).notes)  # type: ignore[arg-type]


def test_a_whole_log_says_little() -> None:
    told = session(log(), None, []).notes
    assert [note.split()[0] for note in told] == ["Tokens", "The"]
    assert "prompts only" in told[-1]


def test_one_request_has_no_prediction_to_speak_of() -> None:
    assert "prompts only" not in said(log(1))


def test_what_the_transcript_lacks() -> None:
    nothing = log(complete=frozenset())
    assert "lacks the system prompt and the tools: " in said(nothing)
    assert "lacks the tools in 2 of 5 requests" in said(
        [*log(3), *log(2, complete=frozenset({"system"}))]
    )
    assert "lacks" not in said(log())


def test_where_the_file_breaks_off() -> None:
    end = Unreadable(Place("log.gz", 1_200), "is where the file breaks off: x", is_end=True)
    told = "The file breaks off at line 1,200: what came after is missing."
    assert session([*log(), end], None, []).notes[0] == told
    cut = Unreadable(Place("log.gz", 7), "is not JSON")
    notes = session([*log(), *[cut] * 40, end], None, []).notes  # far more than are named
    assert notes[:2] == [
        "40 entries could not be read and are left out; the first is line 7.",
        told,
    ]
    document = Unreadable(Place("log.yaml.gz"), "breaks off", is_end=True)
    assert "The file breaks off: what came after is missing." in said([*log(), document])
    assert "breaks off" not in said([*log(), cut])


def test_requests_that_were_rebuilt() -> None:
    assert "rebuilt" in said(log(unrolled=True))
    assert "rebuilt" not in said(log())


def test_reports_of_some() -> None:
    some = [*log(2, reported=Reported(100, 50)), *log(3)]
    assert "2 of 5 requests report" in said(some)
    assert "report" not in said(log(3, reported=Reported(100, 50)))
    assert "report" not in said(log())


def test_pictures() -> None:
    url = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    shown = {"role": "user", "content": [{"type": "text", "text": "look"}, url]}
    messages = [SYSTEM, shown]
    requests = [request(messages), request([*messages, reply("a"), user("b")], 2)]
    assert "1 message has pictures" in said(requests)
    assert "pictures" not in said(log())


def test_prompts_that_do_not_fit() -> None:
    tight = Analysis(target=Target(window=30))
    assert "not fit the window" in said(log(4), tight)
    assert "not fit" not in said(log(4), Analysis(target=Target(window=3_000)))


def test_estimates_although_a_model_was_given() -> None:
    pytest.importorskip("tokenizers", reason="needs the extra `exact`")
    pytest.importorskip("jinja2", reason="needs the extra `exact`")
    from tests.audit.rules.test_template import exact, toy

    late = [SYSTEM, user("a"), reply("b"), SYSTEM, user("c")]
    strict = exact(toy(system="strict"))
    told = said([*log(2), request(late, 9)], strict)
    assert "The tokens of 1 request are estimates: " in told
    assert "--tokenizer" not in told
    assert "estimates" not in said(log(2), exact(toy(system="strict")))


def test_several_conversations() -> None:
    other = [request([SYSTEM, user("Quite another question, of somebody else.")], 9)]
    assert "one after the other" in said([*log(), *other])
    assert "one after the other" not in said(log())


def test_what_could_not_be_read() -> None:
    bad = [Unreadable(Place("log.jsonl", n), "no JSON") for n in range(7, 37)]
    assert "30 entries could not be read and are left out; the first is line 7." in said(
        [*log(), *bad]
    )
    assert "1 entry could not be read and is left out; it is line 7." in said([*log(), bad[0]])
    whole = Unreadable(Place("log.json"), "no JSON")
    assert "1 entry could not be read and is left out." in said([*log(), whole])


def test_what_a_summary_must_not_cut_off_comes_first() -> None:
    """A screen has room for two of them."""
    bad = Unreadable(Place("log.jsonl", 7), "no JSON")
    told = session([*log(unrolled=True, complete=frozenset()), bad], None, []).notes
    assert [note.split(" ", 1)[1].split(" ")[:2] for note in told[:3]] == [
        ["entry", "could"],
        ["transcript", "lacks"],
        ["requests", "are"],
    ]


def test_a_trace() -> None:
    told = said([Hashed(Place("t.jsonl", 1), [1, 2], 512, 1_024)])
    assert "512-token blocks" in told
    assert "estimates" not in told
    assert "not fit" not in told
    assert "1 prompt does not fit" in said(
        [Hashed(Place("t.jsonl", 1), [1, 2], 512, 1_024)], Analysis(target=Target(blocks=33))
    )


def test_an_empty_transcript() -> None:
    assert said([]) == ""
