"""How does a page behave in a real browser?

Chromium, spoken to in its DevTools protocol over a pair of pipes: JSON texts that end in a zero byte.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
# The browser reads commands from file descriptor 3 and answers on 4.
_LAUNCH = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); "
    "os.execvp(sys.argv[3], sys.argv[3:])"
)


def program() -> str | None:
    """The browser's path; None where there is none."""
    found = (shutil.which(name) for name in _NAMES)
    return os.environ.get("KVAGENT_CHROMIUM") or next(filter(None, found), None)


class Failed(Exception):
    """The browser refused a command, or is gone."""


class Browser:
    """One browser with one page in it."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = commands, answers
        self._ids = itertools.count(1)
        self._buffer = bytearray()
        self.messages: list[str] = []
        """What the page wrote to the console, its exceptions, and what its policy refused."""
        self.requests: list[str] = []
        """The addresses that the page asked for."""
        self._loaded = False
        self._session = ""
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")

    def open(
        self,
        path: Path,
        width: int = 1280,
        height: int = 900,
        *,
        dark: bool = False,
        media: str = "",
    ) -> None:
        """Load a file, and wait until it is there."""
        self.messages.clear()
        self.requests.clear()
        self.resize(width, height)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", media=media, features=[scheme])
        self._loaded = False
        self._call("Page.navigate", url=path.as_uri())
        while not self._loaded:
            self._read()

    def resize(self, width: int, height: int) -> None:
        """Give the window another size."""
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )

    def evaluate(self, script: str) -> Any:
        """The value of an expression in the page."""
        answer = self._call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise Failed(json.dumps(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def until(self, condition: str) -> None:
        """Wait for something that the page does in its own time; fails after some seconds."""
        waits = (
            "new Promise((done, fail) => { let left = 500; const look = () => "
            f"({condition}) ? done(true) : left-- ? setTimeout(look, 20) : fail('not so'); look(); }})"
        )
        self.evaluate(waits)

    def click(self, selector: str) -> None:
        """Press the mouse's button on the middle of an element, as a person would."""
        x, y = self.evaluate(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            " e.scrollIntoView({block: 'center', inline: 'center'}); const r = e.getBoundingClientRect();"
            " return [r.left + r.width / 2, r.top + r.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self._call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def script_allowed(self, *, allowed: bool) -> None:
        """Whether the pages that are opened from now on may run scripts."""
        self._call("Emulation.setScriptExecutionDisabled", value=not allowed)

    def screenshot(self, *, whole: bool = False) -> bytes:
        """A picture (PNG) of what is seen, or of the whole page."""
        answer = self._call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        return base64.b64decode(answer["data"])

    def pdf(self) -> bytes:
        """The page as it is printed."""
        return base64.b64decode(self._call("Page.printToPDF", printBackground=False)["data"])

    def _call(self, method: str, **arguments: Any) -> dict[str, Any]:
        number = next(self._ids)
        command = {"id": number, "method": method, "params": arguments}
        if self._session:
            command["sessionId"] = self._session
        data = json.dumps(command).encode() + b"\0"
        while data:
            data = data[os.write(self._commands, data) :]
        while True:
            answer = self._read()
            if answer.get("id") == number:
                if "error" in answer:
                    raise Failed(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result

    def _read(self) -> dict[str, Any]:
        """The next text from the browser; of events it is noted what matters."""
        while b"\0" not in self._buffer:
            data = os.read(self._answers, 1 << 16)
            if not data:
                raise Failed("the browser is gone")
            self._buffer += data
        text, _, rest = bytes(self._buffer).partition(b"\0")
        self._buffer = bytearray(rest)
        told: dict[str, Any] = json.loads(text)
        self._note(told.get("method"), told.get("params", {}))
        return told

    def _note(self, method: str | None, params: dict[str, Any]) -> None:
        if method == "Page.loadEventFired":
            self._loaded = True
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Runtime.consoleAPICalled":
            self.messages.append(json.dumps(params["args"]))
        elif method == "Runtime.exceptionThrown":
            self.messages.append(json.dumps(params["exceptionDetails"]))
        elif method == "Log.entryAdded":
            self.messages.append(json.dumps(params["entry"]))


@contextlib.contextmanager
def started(path: str) -> Iterator[Browser]:
    """A browser, which is gone afterwards."""
    theirs, commands = os.pipe()
    answers, their_answers = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        fixed = [sys.executable, "-c", _LAUNCH, str(theirs), str(their_answers), path]
        process = subprocess.Popen(
            [*fixed, *_OPTIONS, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(theirs, their_answers),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(theirs)
        os.close(their_answers)
        try:
            yield Browser(commands, answers)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            os.close(commands)
            os.close(answers)
