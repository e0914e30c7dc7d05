"""How are transcripts audited, from their paths to one report?

What the command does, for programs: ``audit_file("session.jsonl").findings``.
"""

from __future__ import annotations

import io
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvagent.audit.analyse import Watcher, audit
from kvagent.audit.baseline import Baseline
from kvagent.audit.counting import Counting, counting_of
from kvagent.audit.files import File, files_of
from kvagent.audit.formats import BY_NAME, recognise
from kvagent.audit.formats.contents import Contents
from kvagent.audit.formats.format import Format
from kvagent.audit.gates import check_words, gates_of
from kvagent.audit.loose import Log, as_sent, logs_of
from kvagent.audit.names import STANDARD, called, placed
from kvagent.audit.rules import RULES, checks
from kvagent.audit.selection import selected
from kvagent.audit.session import Failed, Report, Session
from kvagent.audit.settings import Settings, SettingsError
from kvagent.audit.source import Source, opened, source_of
from kvagent.audit.transcript import CannotRead, Item, NoTranscript, Place, Unreadable
from kvagent.audit.turns import Analysis
from kvagent.offline import place

if TYPE_CHECKING:
    from kvagent.audit.whatif import WhatIfSent
    from kvagent.policy import Policy

logger = logging.getLogger("kvagent")

_CHUNK = 1 << 20

# Bytes of a log that is sent through kvagent only if that is asked for: it doubles the time.
_LARGE = 64 << 20


def audit_file(
    path: str | os.PathLike[str],
    settings: Settings | None = None,
    *,
    counting: Counting | None = None,
    policy: Policy | None = None,
) -> Session:
    """Audit one transcript; ``-`` is standard input.

    Args:
        path: a file in any format that kvagent knows, packed or not.
        settings: as the command takes them; what is about gates and output is not used here.
        counting: counts tokens instead of what the settings name.
        policy: what the session is sent through for ``what_if``; None: the default one.

    Raises:
        NoTranscript: it cannot be read, or no format knows it, or there is nothing in it.
        SettingsError: a setting does not hold.
    """
    return Auditor(settings, counting=counting, policy=policy).file(path)


def audit_files(
    sources: Sequence[str | os.PathLike[str]],
    settings: Settings | None = None,
    *,
    counting: Counting | None = None,
    policy: Policy | None = None,
    advance: Callable[[int], None] = lambda _: None,
) -> Report:
    """Audit many transcripts, and see whether the gates hold that the settings have.

    What cannot be read is told in the report and hinders no other; a file of a folder that is
    something else than a transcript is passed over.

    Args:
        sources: files and folders; ``-`` is standard input.
        settings: as the command takes them.
        counting: counts tokens instead of what the settings name.
        policy: what the sessions are sent through for ``what_if``; None: the default one.
        advance: is told the bytes that were read since it was last told.

    Raises:
        SettingsError: a setting does not hold.
    """
    auditor = Auditor(settings, counting=counting, policy=policy, advance=advance)
    baseline = None
    if auditor.settings.baseline is not None:
        baseline = Baseline.read(auditor.settings.baseline)
    sessions, failed, passed_over = [], [], []
    for log in logs_of(files_of(sources), auditor.settings.format):
        try:
            sessions.append(auditor.log(log))
        except NoTranscript as error:
            if _is_something_else(log.files[0], error):
                passed_over.append(log.name)
            else:
                failed.append(Failed(log.name, str(error)))
        except SettingsError:
            raise
        except Exception as error:  # the others are not lost by it
            logger.debug("kvagent failed on %s", log.name, exc_info=True)
            said = f"{log.name} is not audited: an error inside kvagent, {place(error)}."
            failed.append(Failed(log.name, said))
    gates = gates_of(sessions, auditor.settings, baseline)
    return Report(sessions, failed, gates, passed_over=passed_over)


class Auditor:
    """Audits one transcript after the other, all in the same way.

    Args:
        settings: as the command takes them.
        counting: counts tokens instead of what the settings name.
        policy: what a session is sent through for ``what_if``; None: the default one.
        advance: is told the bytes that were read since it was last told.

    Raises:
        SettingsError: a setting does not hold.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        counting: Counting | None = None,
        policy: Policy | None = None,
        advance: Callable[[int], None] = lambda _: None,
    ) -> None:
        self.settings = settings or Settings()
        name = self.settings.format
        if name is not None and name not in BY_NAME:
            raise SettingsError(
                f"there is no format {name}; there are {', '.join(sorted(BY_NAME))}"
            )
        check_words(self.settings.fail_on)
        self._codes = selected(self.settings.select, self.settings.ignore, RULES)
        self._counting = counting or counting_of(self.settings)
        self._policy = policy
        self._advance = advance

    @property
    def counting(self) -> Counting:
        """What counts the tokens, and for which server."""
        return self._counting

    def file(self, path: str | os.PathLike[str]) -> Session:
        """Audit the next one.

        Raises:
            NoTranscript: it cannot be read, or no format knows it, or there is nothing in it.
        """
        name = os.fspath(path)
        return self.log(Log(name, (File(name, named=True),)))

    def log(self, log: Log) -> Session:
        """Audit one file, or several that are one log; see ``file``."""
        if closed := log.files[0].closed:
            raise CannotRead(f"{log.name} cannot be read: {closed}.")
        analysis = self._counting.analysis()
        is_large = _bytes_of(log) > _LARGE
        what_if = self._what_if(analysis, is_large=is_large)
        watchers: list[Watcher] = [] if what_if is None else [what_if]
        with ExitStack() as stack:
            first = stack.enter_context(self._opened(log.files[0].path))
            contents = Contents.of(first)
            known = self._format_of(contents)
            items = known.read(contents)
            if len(log.files) > 1:
                items = as_sent(chain(items, self._more(log.files[1:])))
            session = audit(items, log.name, known, analysis, checks(), watchers)
        found = session.findings
        session.findings = [each for each in found if each.rule.code in self._codes]
        if left_out := len(found) - len(session.findings):
            findings = "1 finding is" if left_out == 1 else f"{left_out} findings are"
            session.notes.insert(0, f"{findings} left out by what was selected or ignored.")
        if not session.requests and (session.unreadable_count or self.settings.format is not None):
            breaks_off = any(each.is_end for each in session.unreadable)
            raise (CannotRead if breaks_off else NoTranscript)(_nothing(session))
        if len(log.files) > 1:
            session.notes.append(
                f"{len(log.files):,} files with one request each are read as one log, in the order "
                "of their times or else of their names."
            )
        if what_if is not None and session.rows:
            session.what_if = what_if.result(session)
        elif is_large and self.settings.what_if is None and session.rows:
            session.notes.append(
                "So large a log is not sent through kvagent by itself: --what-if does it, which "
                "takes about twice the time."
            )
        return session

    def _format_of(self, contents: Contents) -> Format:
        name = self.settings.format
        if name is not None:
            return BY_NAME[name]
        try:
            return recognise(contents)
        except NoTranscript as error:
            if contents.source.breaks_off:  # what is missing may be what would have said it
                raise CannotRead(str(error)) from error
            raise

    def _more(self, files: Sequence[File]) -> Iterator[Item]:
        """What is in the further files of a log."""
        for file in files:
            try:
                with self._opened(file.path) as source:
                    contents = Contents.of(source)
                    yield from self._format_of(contents).read(contents)
            except NoTranscript as error:
                yield Unreadable(Place(file.path), f"is not there any more: {error}")

    def _what_if(self, analysis: Analysis, *, is_large: bool) -> WhatIfSent | None:
        wanted = self.settings.what_if
        if wanted is False or (wanted is None and is_large):
            return None

        from kvagent.audit.whatif import WhatIfSent
        from kvagent.policy import Policy

        policy = self._policy or Policy()
        if policy.window is None:
            policy = policy.model_copy(update={"window": self._counting.target.window})
        try:
            return WhatIfSent(policy, analysis)
        except ValueError as error:  # a file that it names
            raise SettingsError(f"the policy does not hold: {error}") from error

    @contextmanager
    def _opened(self, name: str) -> Iterator[Source]:
        """The file, whose bytes are counted while they are read."""
        try:
            size = None if name == STANDARD else Path(name).stat().st_size or None
        except (OSError, ValueError):
            size = None  # opening it will say why
        if size is None:
            with opened(name) as source:
                yield source
            return
        try:
            raw = _Counted(name, self._advance)
        except OSError as error:
            raise CannotRead(f"{name} cannot be read: {error.strerror or error}.") from error
        with io.BufferedReader(raw, _CHUNK) as stream:
            source = source_of(name, stream)
            yield source
            if source.stream is not stream:
                source.stream.close()


class _Counted(io.FileIO):
    """A file that tells how many bytes were read."""

    def __init__(self, name: str, advance: Callable[[int], None]) -> None:
        super().__init__(name)
        self._advance = advance

    def readinto(self, buffer: Any, /) -> int | None:
        size = super().readinto(buffer)
        self._advance(size or 0)
        return size


def _nothing(session: Session) -> str:
    """That no request was found, and why that may be."""
    if session.unreadable:
        fault = session.unreadable[0]
        why = f"{placed(fault.place)} {fault.why}"
    else:
        why = "it holds no request in that form; without --from, its content says what it is"
    name, form = called(session.file), f"{session.format_title} ({session.format})"
    return f"nothing in {name} can be read as {form}: {why}."


def _is_something_else(file: File, error: NoTranscript) -> bool:
    """Whether a file of a folder is no transcript, which nobody said that it was."""
    return not file.named and not isinstance(error, CannotRead)


def _bytes_of(log: Log) -> int:
    """As they lie on the disk; 0 where that is not known."""
    size = 0
    for file in log.files:
        with suppress(OSError, ValueError):  # opening it will say why
            size += Path(file.path).stat().st_size
    return size
