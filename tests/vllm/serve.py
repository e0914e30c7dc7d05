"""How does vLLM's server surely go away again?

Run by the Python of vLLM's environment with the server's own options. Its standard input is a pipe whose other end
the parent holds: when that closes, also because the parent was killed, the server and all its processes end.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading
import warnings


def end_with_parent() -> None:
    """Wait for the pipe to close, then end the whole process group, which the parent made for this."""
    while os.read(0, 1024):
        pass
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    threading.Thread(target=end_with_parent, daemon=True).start()
    warnings.simplefilter("ignore", DeprecationWarning)
    sys.argv[0] = "vllm"
    runpy.run_module("vllm.entrypoints.openai.api_server", run_name="__main__", alter_sys=True)
