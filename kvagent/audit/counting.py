"""By which model's tokens, and for which server, is a transcript judged?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from kvagent.audit.prediction import Target
from kvagent.audit.prompts import Estimated, Prompts
from kvagent.audit.settings import Settings, SettingsError
from kvagent.audit.turns import Analysis
from kvagent.backends.simulation import Settings as Layers
from kvagent.kvmemory.geometry import Geometry
from kvagent.model_geometry import ModelError, read_model
from kvagent.policy import KV
from kvagent.weight import kv_bytes

_GGUF = b"GGUF"
_MISSING = "exact tokens need jinja2 and tokenizers: pip install 'kvagent[exact]'"


@dataclass(frozen=True, slots=True)
class Counting:
    """What counts the tokens, and for which server."""

    prompts: Callable[[], Prompts] = Estimated
    """Makes a counter for the next transcript."""
    target: Target = field(default_factory=Target)
    kv_bytes: Callable[[int], int] | None = None
    """Bytes of the KV cache that so many tokens take; None where no model says it."""

    def analysis(self) -> Analysis:
        """A fresh one, for one transcript."""
        return Analysis(self.prompts(), self.target, self.kv_bytes)


def is_url(tokenizer: str | None) -> bool:
    """Whether a running server is to be asked for its tokens."""
    return tokenizer is not None and tokenizer.startswith(("http://", "https://"))


def counting_of(settings: Settings) -> Counting:
    """What the settings name.

    Raises:
        SettingsError: they name what is not there, cannot be used, or does not go together.
    """
    if is_url(settings.tokenizer):
        raise SettingsError(f"nobody is here who could ask {settings.tokenizer} for its tokens")
    target = target_of(settings, "llama.cpp" if _is_gguf(settings.tokenizer) else "vllm")
    if settings.tokenizer is None:
        if settings.template is not None:
            raise SettingsError("--template renders for --tokenizer, which is not given")
        return Counting(target=target, kv_bytes=weighed(settings))
    return Counting(_exact(settings, target), target, weighed(settings))


def target_of(settings: Settings, kind: str, known: Target | None = None) -> Target:
    """The server to predict for.

    Args:
        settings: what was set.
        kind: of the server, where that is not set.
        known: what a running one tells of itself.

    Raises:
        SettingsError: two settings do not go together.
    """
    kind = settings.server or kind
    base = known if known is not None and known.kind == kind else Target()
    layers = base.settings if (model := _model(settings)) is None else Layers(geometry=model)
    if kind == "llama.cpp":
        for name in ("block_size", "blocks", "capacity"):
            if getattr(settings, name) is not None:
                option = name.replace("_", "-")
                raise SettingsError(
                    f"--{option} is vLLM's: of llama.cpp's slots give --slots and --window"
                )
        return Target(
            "llama.cpp",
            slots=settings.slots or base.slots,
            window=settings.window or base.window,
            settings=layers,
        )
    if settings.slots is not None:
        raise SettingsError("--slots are llama.cpp's: add --server llama.cpp")
    size = settings.block_size or base.block_size
    window = settings.window or base.window
    # Where all layers see everything, vLLM's cache does not depend on them.
    forgets = model is not None and model.windows and window is not None
    return Target(
        "vllm",
        block_size=size,
        blocks=_blocks(settings, size) or base.blocks,
        window=window,
        settings=layers if forgets else base.settings,
    )


def _blocks(settings: Settings, size: int) -> int | None:
    if settings.capacity is None:
        return settings.blocks
    if settings.blocks is not None:
        raise SettingsError("--blocks and --capacity say the same: give one of them")
    if settings.capacity < 2 * size:
        raise SettingsError(
            f"--capacity {settings.capacity} is less than two blocks of {size} tokens, one of "
            "which vLLM never uses"
        )
    return settings.capacity // size


def weighed(settings: Settings) -> Callable[[int], int] | None:
    """Bytes of the KV cache, by the model that was named or by the tokenizer's own.

    Raises:
        SettingsError: the model or the data type is not known.
    """
    if settings.kv_model is None and _model(settings) is None:
        return None
    try:
        return kv_bytes(KV(model=_path(settings), dtype=settings.kv_dtype, tp=settings.tp))
    except ValueError as error:
        option = "--kv-dtype" if _model(settings) is not None else "--kv-model"
        raise SettingsError(f"{option}: {error}") from error


def _model(settings: Settings) -> Geometry | None:
    """The layers of the model that was named or has the tokenizer; None where nobody says them."""
    try:
        return read_model(_path(settings)).geometry
    except ModelError:  # a tokenizer need not say them, and a name that is none is told later
        return None


def _path(settings: Settings) -> str:
    if settings.kv_model is not None:
        return settings.kv_model
    path = settings.tokenizer or ""
    return str(Path(path).parent) if Path(path).name == "tokenizer.json" else path


def _exact(settings: Settings, target: Target) -> Callable[[], Prompts]:
    """The model in a GGUF file or a Hugging Face folder, loaded once."""
    path = settings.tokenizer or ""
    try:
        import jinja2  # noqa: F401
        import tokenizers  # noqa: F401
    except ImportError as error:
        raise SettingsError(_MISSING) from error
    from kvagent.audit.rendered import Exact
    from kvagent.backends import Server
    from kvagent.backends.dialects import dialect_of
    from kvagent.gguf import GGUFError
    from kvagent.tokens.model import Model
    from kvagent.tokens.template import TemplateError
    from kvagent.tokens.tokenizer import TokenizerError

    dialect = dialect_of(Server(target.kind))
    template = _text(settings.template)
    try:
        if _is_gguf(path):
            model = Model.from_gguf(path, template, dialect)
        else:
            model = Model.from_folder(_folder(path), template, dialect)
    except OSError as error:
        raise SettingsError(f"--tokenizer {path}: {error.strerror or error}") from error
    except (GGUFError, TokenizerError, TemplateError) as error:
        said = str(error).replace("pass the text of one as `template`", "give one with --template")
        raise SettingsError(f"--tokenizer {path}: {said}") from error
    return lambda: Exact(model)


def _is_gguf(path: str | None) -> bool:
    if path is None:
        return False
    try:
        with Path(path).open("rb") as file:
            return file.read(len(_GGUF)) == _GGUF
    except OSError:
        return False


def _folder(path: str) -> str:
    """The folder of a tokenizer; of a ``tokenizer.json`` the one that it lies in."""
    file = Path(path)
    if file.is_dir():
        return path
    if not file.exists():
        raise SettingsError(
            f"--tokenizer {path}: there is no such file; give a GGUF file, a Hugging Face folder, "
            "or the URL of a running server"
        )
    if file.name != "tokenizer.json":
        raise SettingsError(
            f"--tokenizer {path}: is neither a GGUF file nor a Hugging Face folder with its "
            "tokenizer.json"
        )
    return str(file.parent)


def _text(template: str | None) -> str | None:
    if template is None:
        return None
    try:
        text = Path(template).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise SettingsError(f"--template {template}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"--template {template} is not UTF-8") from error
    if not text.strip():
        raise SettingsError(f"--template {template} is empty")
    return text
