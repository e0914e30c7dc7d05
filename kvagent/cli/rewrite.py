"""What would kvagent have sent for these recorded chat requests?

The requests run through one engine without a server, as if each had been answered before the next
one came. Memory does not grow with the file: one line at a time is held, and the engine's own
memory is bounded by the policy.
"""

from __future__ import annotations

import sys
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Annotated

import typer

from kvagent.bill import saved_tokens
from kvagent.cli.event_lines import as_json
from kvagent.cli.failure import Failure, because
from kvagent.cli.packed import refuse_packed
from kvagent.cli.policy_file import read_policy
from kvagent.cli.progress import progress
from kvagent.cli.recorded import Broken, Recorded
from kvagent.cli.summarizers import summarizer_of
from kvagent.cli.whole_file import STANDARD, WholeFile
from kvagent.events import Edited, PrefixBroken
from kvagent.offline import Offline, Rewritten
from kvagent.policy import Policy
from kvagent.summaries import Summarize

# Who gives the wrong file does not want to read all of it again.
_BROKEN_LINES_SAID = 20
# A request with pictures has some tens of millions; a line beyond this is no recording.
_LONGEST_LINE = 1 << 28
# With these alone on its first line, a file is a document that was printed for people.
_OPENINGS = (b"{", b"[")


def rewrite(
    source: Annotated[
        str,
        typer.Argument(
            metavar="IN",
            help='Recorded requests, one a line: the body, or {"body": ...} or {"request": ...} '
            "with any other keys. - is standard input.",
        ),
    ],
    out: Annotated[
        str,
        typer.Option(
            "--out",
            "-o",
            metavar="OUT",
            help="Where the requests go, line for line. It may be IN itself.",
        ),
    ] = STANDARD,
    policy: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help='The policy as TOML or JSON. A stage is off with null (JSON), false, or "off".',
        ),
    ] = None,
    window: Annotated[
        int | None,
        typer.Option(min=1, metavar="TOKENS", help="The window; goes before the policy's."),
    ] = None,
    fields: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="A field of the policy, such as clear.keep=5, evict.keep=800 or compact=off; "
            "goes before the file's. May be given many times.",
        ),
    ] = None,
    summarizer: Annotated[
        str,
        typer.Option(
            metavar="none|extractive|URL",
            help="Who tells what was done in old turns that leave the prompt: nobody (facts "
            "alone), rules without a model, or a server.",
        ),
    ] = "none",
    api_key: Annotated[
        str | None,
        typer.Option(envvar="OPENAI_API_KEY", help="The key of the summarizer's server."),
    ] = None,
    events: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Where to say what was done and why: one event a line, with the number of its "
            "request's line, and nothing of a prompt. - is standard output.",
        ),
    ] = None,
    verbose: Annotated[
        bool,
        typer.Option("--verbose", "-v", help="End with a summary, also where nobody looks on."),
    ] = False,
) -> None:
    """Write what kvagent would have sent for recorded chat requests.

    A request that kvagent would let through is written as it came, and named on stderr. If a line
    holds no request, or there is none, nothing is written and the exit status is 2.
    """
    settings = read_policy(policy, fields or ())
    settings = settings.model_copy(update={"window": window or settings.window})
    _refuse_clashes(source, out, events)
    size = _size(source)
    with ExitStack() as stack:
        recording = stack.enter_context(_opened(source))
        wire = stack.enter_context(WholeFile(out))
        log = stack.enter_context(WholeFile(events)) if events is not None else None
        screen = stack.enter_context(progress("rewriting", size))
        summarize = summarizer_of(summarizer, api_key, screen.say)
        rewriting = _Rewriting(settings, summarize, screen.say, verbose)
        for number, line in _lines(recording, source):
            rewriting.line(number, line, wire, log)
            screen.advance(len(line))
        rewriting.finish(source)
        # Both are known to have room before either takes its place.
        for file in (wire, log):
            if file is not None:
                file.flush()
        for file in (wire, log):
            if file is not None:
                file.commit()
    if verbose or sys.stderr.isatty():
        typer.echo(rewriting.summary(), err=True)


class _Rewriting:
    """The engine, and what is counted and complained of on the way through a recording."""

    def __init__(
        self,
        policy: Policy,
        summarize: Summarize | None,
        say: Callable[[str], None],
        verbose: bool,
    ) -> None:
        try:
            self._offline = Offline(policy, summarizer=summarize)
        except ValueError as error:  # a file that it names
            raise Failure(f"the policy does not hold: {error}") from error
        self._say = say
        self._verbose = verbose
        self._requests = 0
        self._edited = 0
        self._breaks = 0
        self._saved_tokens = 0
        self._broken = 0
        self._stages: dict[str, tuple[int, int, int]] = defaultdict(lambda: (0, 0, 0))

    def line(self, number: int, line: bytes, wire: WholeFile, log: WholeFile | None) -> None:
        """Rewrite one line, and say what was done."""
        try:
            recorded = Recorded.read(line)
        except Broken as broken:
            self._complain(number, line, broken)
            return
        if self._broken:
            return  # nothing will be written
        if recorded is None:
            wire.write(line)
            return
        made = self._rewritten(number, recorded.body)
        edited = made.body != recorded.body
        wire.write(recorded.with_body(made.body) if edited else line)
        self._requests += 1
        self._edited += edited
        self._saved_tokens += saved_tokens(made.events)
        for event in made.events:
            self._breaks += isinstance(event, PrefixBroken)
            if isinstance(event, Edited):
                times, freed, cost = self._stages[event.stage]
                self._stages[event.stage] = (
                    times + 1,
                    freed + event.freed_tokens,
                    cost + event.cost_tokens,
                )
            if log is not None:
                log.write(as_json(number, event))

    def _rewritten(self, number: int, body: bytes) -> Rewritten:
        made = self._offline.rewrite(body)
        reason = made.let_through
        if reason:
            if made.error is not None and self._verbose:
                reason += "\n" + "".join(traceback.format_exception(made.error)).rstrip()
            self._say(f"line {number} goes out as it came: {reason}")
        return made

    def _complain(self, number: int, line: bytes, broken: Broken) -> None:
        self._broken += 1
        if number == 1 and line.strip() in _OPENINGS:
            raise Failure(
                "this is one JSON document over many lines, nothing was written; one request a "
                "line is wanted, as `jq -c .` writes it (or `jq -c '.[]'` from a list of requests)"
            )
        self._say(f"line {number} {broken}")
        if self._broken == _BROKEN_LINES_SAID:
            raise Failure(f"stopped after {self._broken} broken lines, nothing was written")

    def finish(self, source: str) -> None:
        """End the run; ``Failure`` when lines were broken, or there was no request."""
        if self._broken:
            lines = "one broken line" if self._broken == 1 else f"{self._broken} broken lines"
            raise Failure(f"{lines}, nothing was written")
        if not self._requests:
            name = "standard input" if source == STANDARD else source
            raise Failure(f"{name} holds no request, nothing was written")

    def summary(self) -> str:
        """Requests, how many of them changed, breaks, and the estimated prefill saved, at least."""
        would = "would be " if self._offline.engine.policy.mode == "observe" else ""
        bill = self._offline.engine.meter.bill()
        first = (
            f"{self._requests} requests, {self._edited} edited, {self._breaks} prefix breaks, "
            f"some {self._saved_tokens:,} tokens of prefill {would}saved"
        )
        lines = [first]
        for stage in ("evict", "clear", "compact"):
            times, freed, cost = self._stages[stage]
            if times:
                costs = f", {cost:,} prefilled again" if cost else ""
                often = "once" if times == 1 else f"{times} times"
                lines.append(f"{stage}: {often}, {freed:,} tokens {would}freed{costs}")
        if bill.own_prefilled_tokens or bill.own_completion_tokens:
            lines.append(
                f"summaries: {bill.own_prefilled_tokens:,} tokens prefilled, "
                f"{bill.own_completion_tokens:,} generated"
            )
        return "\n".join(lines)


def _refuse_clashes(source: str, out: str, events: str | None) -> None:
    """Two streams into one place would destroy both."""
    if events is None:
        return
    if _same(events, out):
        raise Failure("requests and events cannot go to the same place: give --out or --events")
    if events != STANDARD and source != STANDARD and _same(events, source):
        raise Failure(f"the events would replace the recording {source}: name another file")


def _same(one: str, other: str) -> bool:
    if STANDARD in (one, other):
        return one == other
    return Path(one).resolve() == Path(other).resolve()


def _size(source: str) -> int | None:
    """Bytes to come, for the progress bar; None where that is not known."""
    try:
        return None if source == STANDARD else Path(source).stat().st_size or None
    except OSError:
        return None  # opening it will say why


def _opened(source: str) -> IO[bytes]:
    if source == STANDARD:
        return sys.stdin.buffer
    try:
        return Path(source).open("rb")
    except OSError as error:
        raise Failure(f"cannot read {source}: {because(error)}") from error


def _lines(recording: IO[bytes], source: str) -> Iterator[tuple[int, bytes]]:
    number = 0
    try:
        while line := recording.readline(_LONGEST_LINE):
            number += 1
            if number == 1:
                refuse_packed(line, source, "kvagent rewrite")
            if len(line) == _LONGEST_LINE:
                raise Failure(f"line {number} of {source} is longer than a request can be")
            yield number, line
    except OSError as error:
        raise Failure(f"cannot read {source}: {because(error)}") from error
