"""What may an agent send, turn after turn? Random sessions, as plain data.

Hypothesis draws what happens (turns, retries, failures, going back, branches); how a message looks
each time it is sent follows from a drawn seed, and seed 0 means "as ever", so that a failing
session shrinks to the forms that matter.
"""

from __future__ import annotations

import json
import random
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from hypothesis import strategies as st

from kvagent import Engine, Evict, Policy, Tokens, Volatile
from kvagent.chat import ChatReply
from kvagent.flow import Answer, Call, drive

Message = dict[str, Any]
Kind = Literal["turn", "lost", "cut", "refused", "abandoned", "back", "fork"]
Outcome = Literal["answered", "cut", "refused", "abandoned"]

CLOCK = "Current time: "
RUN = "This run is "
TICKET = "ticket="
TICKETS = r"ticket=(?P<value>\w+)"
"""A pattern that a user declares for the ticket's line."""

_WORDS = (
    *(
        "read",
        "the",
        "file",
        "naïve",
        "北京",
        "🙂",
        "tests",
        "fail",
        'a "quoted" word',
        "\\n",
        "\u2028",
    ),
    *("{", "}", "[1]", "null", "</tag>", "e\u0301", "line\nbreak", "\ttab", "src/main.py", "0"),
)


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request as the agent sends it, and what the server does with it."""

    conversation: int
    body: bytes
    history: tuple[str, ...]
    """A name for each message after the head; all forms of a message have the same name."""
    values: dict[str, str]
    """What the volatile lines of the head say, by their label."""
    outcome: Outcome
    reply: Message | None
    """The message as generated; None where the server did not answer to the end."""

    @property
    def kept(self) -> bool:
        """Whether an engine is told that the server has taken this prompt."""
        return self.outcome in ("answered", "cut")


@dataclass(frozen=True, slots=True)
class Traits:
    """What an agent's requests are like."""

    clock: bool = False
    run_id: bool = False
    ticket: bool = False
    """Whether a line of the head holds what only a declared pattern finds."""
    system_parts: bool = False
    tools: int = 0
    greets: bool = False
    """Whether replies may be words that any conversation may have."""
    loose_json: bool = False
    """Whether bodies are written with blanks and escapes, not as the SDK does."""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that an agent does."""

    kind: Kind
    branch: int = 0
    what: int = 0
    """Seeds what is said."""
    form: int = 0
    """Seeds the form in which the request is written; 0: as ever."""
    ticks: bool = False
    """Whether the volatile lines say something new."""
    same: bool = False
    """Whether a request that is sent again is the very same bytes."""


@dataclass(slots=True)
class _Branch:
    messages: list[Message]
    last: tuple[tuple[str, ...], bytes, dict[str, str]] | None = None


@dataclass(slots=True)
class Agent:
    """Turns steps into exchanges."""

    traits: Traits
    number: int = 0
    seed: int = 0
    opening: str | None = None
    """The first message; None: drawn."""
    branches: list[_Branch] = field(default_factory=list)
    count: int = 0
    ticked: int = 0

    def __post_init__(self) -> None:
        rng = random.Random(self.seed)
        first = _user(rng) if self.opening is None else _say("user", self.opening)
        self.branches.append(_Branch([first]))

    def exchanges(self, steps: Iterable[Step]) -> Iterator[Exchange]:
        for step in steps:
            branch = self.branches[step.branch % len(self.branches)]
            rng = random.Random(self.seed * 1_000_003 + step.what)
            if step.kind == "fork":
                self.branches.append(_Branch(list(branch.messages), branch.last))
            elif step.kind == "back":
                users = [i for i, m in enumerate(branch.messages) if m["role"] == "user"]
                at = rng.choice(users[1:] or users)
                branch.messages[at:] = [_user(rng)]
            else:
                yield self._request(branch, step, rng)

    def _request(self, branch: _Branch, step: Step, rng: random.Random) -> Exchange:
        self.ticked += step.ticks
        history = tuple(map(name_of, branch.messages))
        if step.same and branch.last is not None and branch.last[0] == history:
            _, body, values = branch.last
        else:
            values = self._values()
            body = self._body(branch.messages, values, step.form)
            branch.last = history, body, values
        outcome: Outcome = "answered" if step.kind in ("turn", "lost") else step.kind  # type: ignore[assignment]
        reply = self._reply(rng) if outcome == "answered" else None
        if step.kind == "turn":
            assert reply is not None
            branch.messages += [_as_parsed(reply), *self._next(reply, rng)]
        return Exchange(self.number, body, history, values, outcome, reply)

    def _values(self) -> dict[str, str]:
        values = {}
        at = self.number * 1000 + self.ticked
        if self.traits.clock:
            values[CLOCK] = (
                f"2026-{self.number % 12 + 1:02}-03 {at // 3600 % 24:02}:{at // 60 % 60:02}:{at % 60:02}"
            )
        if self.traits.run_id:
            values[RUN] = str(uuid.UUID(int=random.Random(f"run {at}").getrandbits(128), version=4))
        if self.traits.ticket:
            values[TICKET] = f"T{random.Random(f'ticket {at}').getrandbits(40):x}"
        return values

    def _body(self, messages: list[Message], values: dict[str, str], form: int) -> bytes:
        rng = random.Random(form)
        lines = [
            "You are a careful agent. Ω",
            *(label + value for label, value in values.items()),
            "Be brief.",
        ]
        system = _say("system", "\n".join(lines))
        if self.traits.system_parts:
            system["content"] = [
                {"type": "text", "text": lines[0]},
                {"type": "text", "text": "\n".join(lines[1:])},
            ]
        body: Message = {"messages": [system, *messages], "model": "m", "temperature": 0.5}
        if self.traits.tools:
            body["tools"] = [_tool(number) for number in range(self.traits.tools)]
        if form:
            body["messages"] = [restyled(message, rng) for message in body["messages"]]
            if "tools" in body:
                body["tools"] = shuffled_keys(rng.sample(body["tools"], len(body["tools"])), rng)
        if self.traits.loose_json and form % 3:
            body = dict(rng.sample(list(body.items()), len(body)))
            return json.dumps(body, indent=form % 2 or None).encode()
        return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()

    def _reply(self, rng: random.Random) -> Message:
        self.count += 1
        own = f"Step {self.count} of {self.number}: {_text(rng)} {rng.getrandbits(256):x}"
        text = rng.choice((own, "ok" if self.traits.greets else own, "", None))
        message = _say("assistant", text)
        if rng.random() < 0.3:
            message["reasoning_content"] = _text(rng)
        if not text or rng.random() < 0.5:
            message["tool_calls"] = [
                {
                    "id": f"call_{self.number}_{self.count}_{number}",
                    "type": "function",
                    "function": {"name": f"tool{number}", "arguments": _arguments(rng)},
                }
                for number in range(rng.choice((1, 1, 2, 3)))
            ]
        return message

    def _next(self, reply: Message, rng: random.Random) -> list[Message]:
        """What an agent adds to a reply: the results of its calls, else the user's next message."""
        calls = reply.get("tool_calls") or []
        results = [_say("tool", _result(rng), tool_call_id=call["id"]) for call in calls]
        return [*results, *([_user(rng)] if not calls or rng.random() < 0.1 else [])]


def name_of(message: Message) -> str:
    """The same text for every form of a message of these sessions."""
    return json.dumps([message["role"], message.get("content"), _calls(message)], sort_keys=True)


def restyled(message: Message, rng: random.Random) -> Message:
    """The message in another form that means the same."""
    message = dict(message)
    content = message.get("content")
    if content in (None, "") and message["role"] == "assistant":
        message.pop("content", None)
        message |= rng.choice(({}, {"content": None}, {"content": ""}))
    elif isinstance(content, str):
        if message["role"] == "tool" and content.startswith("{"):
            content = _redumped(content, rng)
        message["content"] = rng.choice((content, content, [{"type": "text", "text": content}]))
    for call in message.get("tool_calls", ()):
        assert isinstance(call["function"], dict)
    if "tool_calls" in message:
        message["tool_calls"] = [
            call
            | {
                "function": call["function"]
                | {"arguments": _redumped(call["function"]["arguments"], rng)}
            }
            for call in message["tool_calls"]
        ]
        message |= rng.choice(({}, {"function_call": None}))
    message |= rng.choice(({}, {"name": None}, {"refusal": None, "audio": None}))
    return dict(rng.sample(list(message.items()), len(message)))


def shuffled_keys(value: Any, rng: random.Random) -> Any:
    """JSON with the keys of its objects in another order."""
    if isinstance(value, dict):
        return {key: shuffled_keys(value[key], rng) for key in rng.sample(list(value), len(value))}
    if isinstance(value, list):
        return [shuffled_keys(item, rng) for item in value]
    return value


def play(exchanges: Iterable[Exchange], engine: Engine, session: str | None = None) -> list[bytes]:
    """Send a session through an engine; the bytes that go out, request by request."""
    return [send(exchange, engine, session) for exchange in exchanges]


def send(exchange: Exchange, engine: Engine, session: str | None = None) -> bytes:
    """The bytes that go out for one request, which is then answered."""
    status = 500 if exchange.outcome == "refused" else 200

    def answer(call: Call) -> tuple[Answer, bytes]:
        return Answer(status, b'{"error":{"message":"busy"}}' if status == 500 else b""), call.body

    raw, settle = drive(engine.turn(exchange.body, session=session), answer)
    if exchange.outcome == "answered":
        assert exchange.reply is not None
        settle(ChatReply((exchange.reply,), {}, complete=True), 0.1)
    elif exchange.outcome == "cut":
        settle(ChatReply(complete=False), 0.1)
    return raw


def only(**fixed: Any) -> st.SearchStrategy[Traits]:
    """Any traits, but for those that are fixed."""
    drawn: dict[str, st.SearchStrategy[Any]] = {
        name: st.integers(0, 3) if name == "tools" else st.booleans()
        for name in Traits.__dataclass_fields__
        if name not in fixed
    }
    return st.builds(Traits, **{name: st.just(value) for name, value in fixed.items()}, **drawn)


def policy(**fields: Any) -> Policy:
    """A policy under which all stages have something to do in these sessions."""
    fields.setdefault("evict", Evict(trigger=Tokens(300), keep=200))
    return Policy(probe=False, volatile=Volatile(patterns=(TICKETS,)), **fields)


def dumped(exchanges: Iterable[Exchange]) -> str:
    """A session as one line of JSON."""
    return json.dumps([asdict(e) | {"body": e.body.decode()} for e in exchanges])


def loaded(line: str) -> list[Exchange]:
    """The session of a line."""
    return [Exchange(**data | {"body": data["body"].encode()}) for data in json.loads(line)]


def serve(store: str | None = None) -> None:
    """Answer each session on standard input, each with an engine of its own, with what goes out."""
    for line in sys.stdin:
        engine = Engine(policy(), store=store)
        print(json.dumps([raw.decode() for raw in play(loaded(line), engine)]), flush=True)


traits = only()

_seeds = st.integers(0, 999)


def turns(*more: Kind) -> st.SearchStrategy[list[Step]]:
    """What an agent does; of these kinds ``more`` than usual."""
    kinds: tuple[Kind, ...] = ("turn", "lost", "cut", "refused", "abandoned", "back", "fork")
    step = st.builds(
        Step,
        kind=st.sampled_from(("turn", "turn", "turn", *kinds, *more)),
        branch=st.integers(0, 3),
        what=_seeds,
        form=st.just(0) | _seeds,
        ticks=st.booleans(),
        same=st.booleans(),
    )
    return st.lists(step, min_size=2, max_size=14)


def sessions(traits: st.SearchStrategy[Traits] = traits) -> st.SearchStrategy[list[Exchange]]:
    """What one agent sends."""

    def played(traits: Traits, seed: int, steps: list[Step]) -> list[Exchange]:
        return list(Agent(traits, seed=seed).exchanges(steps))

    return st.builds(played, traits, _seeds, turns())


def interleaved(
    traits: st.SearchStrategy[Traits] = traits,
    agents: int = 3,
    openings: Sequence[str | None] = ("hello", None),
    steps: st.SearchStrategy[list[Step]] | None = None,
) -> st.SearchStrategy[list[Exchange]]:
    """What several agents of one program send in turn, some of which begin with the same words."""

    def played(
        traits: Traits, openings: list[str | None], plans: list[list[Step]], order: int
    ) -> list[Exchange]:
        rng = random.Random(order)
        queues = [
            list(Agent(traits, number, seed=number, opening=opening).exchanges(plan))
            for number, (opening, plan) in enumerate(zip(openings, plans, strict=True), 1)
        ]
        mixed = []
        while any(queues):
            mixed.append(rng.choice([queue for queue in queues if queue]).pop(0))
        return mixed

    begin = st.lists(st.sampled_from(openings), min_size=agents, max_size=agents)
    plan = turns() if steps is None else steps
    plans = st.lists(plan, min_size=agents, max_size=agents)
    return st.builds(played, traits, begin, plans, _seeds)


def _say(role: str, content: Any, **rest: Any) -> Message:
    return {"role": role, "content": content, **rest}


def _text(rng: random.Random, words: int = 12) -> str:
    return " ".join(rng.choice(_WORDS) for _ in range(rng.randint(1, words)))


def _user(rng: random.Random) -> Message:
    parts = [{"type": "text", "text": _text(rng)}, {"type": "text", "text": _text(rng)}]
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    text = f"{_text(rng)} #{rng.getrandbits(24):x}"
    return _say("user", rng.choice((text, text, text, "", parts, [parts[0], image])))


def _arguments(rng: random.Random) -> str:
    value = {
        "path": _text(rng, 3),
        "lines": [1, rng.randint(0, 9)],
        "big": rng.choice((7, 2**70, 1.5, None, True)),
    }
    return rng.choice((json.dumps(value), json.dumps(value, separators=(",", ":")), "{}", ""))


def _result(rng: random.Random) -> str:
    rows = [f"{rng.getrandbits(32):08x} {_text(rng, 4)}" for _ in range(rng.choice((1, 3, 120)))]
    lines = "\n".join(rows)
    return rng.choice((lines, lines, json.dumps({"rows": rows, "total": len(rows)}), ""))


def _as_parsed(reply: Message) -> Message:
    """The reply as a framework keeps it: what it does not know is gone."""
    kept = {key: reply[key] for key in ("role", "content", "tool_calls") if key in reply}
    return json.loads(json.dumps(kept))  # type: ignore[no-any-return]


def _redumped(text: str, rng: random.Random) -> str:
    """JSON text written anew; other text as it is."""
    if not text:
        return rng.choice(("", "{}"))
    dump: Callable[[Any], str] = rng.choice(
        (
            json.dumps,
            lambda value: json.dumps(value, ensure_ascii=False, separators=(",", ":")),
            lambda value: json.dumps(shuffled_keys(value, rng), indent=1),
        )
    )
    return dump(json.loads(text))


def _calls(message: Message) -> list[Any]:
    return [
        [call["id"], call["function"]["name"], json.loads(call["function"]["arguments"] or "{}")]
        for call in message.get("tool_calls") or ()
    ]


def _tool(number: int) -> Message:
    parameters = {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "A path: straße."},
            "lines": {"type": "array", "items": {"type": "integer"}},
        },
        "required": ["path"],
        "additionalProperties": False,
    }
    function = {
        "name": f"tool{number}",
        "description": "Reads.",
        "parameters": parameters,
        "strict": True,
    }
    return {"type": "function", "function": function}
