"""Who may import whom, and is it so in every file?

A room is a module or package directly inside kvagent. The layers are those of the design: a room may import the
rooms below it, and its neighbours in the same layer as long as no two of them import each other. A room that is in
no layer stands as high as the highest one that it imports. Imports that only types need count too: a lower room
that names the types of a higher one already depends on it.
"""

from __future__ import annotations

import ast
import functools
import sys
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

LAYERS: tuple[frozenset[str], ...] = (
    frozenset({"session"}),
    frozenset({"chat", "events", "fingerprint", "policy"}),
    frozenset({"backends", "compaction", "ledger", "shorten", "stores", "tokens"}),
    frozenset({"meter", "stages"}),
    frozenset({"engine"}),
    # The public names, and what stands on them.
    frozenset({"__init__"}),
    frozenset({"audit", "cli", "testing"}),
)

# Models of servers and hardware: of use without the engine, so they know nothing of it.
ALONE = frozenset({"kvmemory", "prefixcache"})

# What `pip install kvagent` brings; a module may count on these when it is imported.
DEPENDENCIES = frozenset({"orjson", "pydantic", "rich", "tenacity", "tiktoken", "typer"})

# Never in the core: the same engine serves every SDK and framework, and both generations of HTTP client.
FOREIGN = frozenset(
    {"agents", "httpx", "httpx2", "kvagent_langchain", "kvagent_openai", "langchain"}
    | {"langchain_core", "langchain_openai", "langgraph", "openai", "pydantic_ai"}
)

# The demo is an agent, so it needs a client; but only once it runs.
DEMO = ("kvagent.cli.demo", frozenset({"httpx", "httpx2", "kvagent_openai", "openai"}))


@dataclass(frozen=True, slots=True)
class Import:
    """One imported module: its full name, its line, and when it is imported."""

    target: str
    line: int
    in_function: bool
    for_types: bool


def imports_of(source: str, module: str, *, is_package: bool = False) -> list[Import]:
    """Every import statement in `source`, which is the text of `module`, with relative names resolved.

    `from a import b` gives `a.b`: whether that is a module is for the reader to decide.
    """
    found: list[Import] = []
    package = module.split(".") if is_package else module.split(".")[:-1]

    def visit(node: ast.AST, *, in_function: bool, for_types: bool) -> None:
        targets: list[str] = []
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            base = base + node.module.split(".") if node.module else base
            targets = [".".join([*base, alias.name]) for alias in node.names]
        found.extend(Import(target, line, in_function, for_types) for target in targets)

        in_function |= isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        only_types: list[ast.stmt] = []
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            only_types = node.body
        for child in ast.iter_child_nodes(node):
            visit(child, in_function=in_function, for_types=for_types or child in only_types)

    visit(ast.parse(source), in_function=False, for_types=False)
    return found


def room_of(target: str) -> str | None:
    """The room that `target` names: `kvagent.stages.evict.Evict` → `stages`; None if it is not in kvagent.

    A name that no file in the package bears is one of the public names, which have the room `__init__`.
    """
    top, *rest = target.split(".")
    if top != "kvagent":
        return None
    known = ALONE.union(*LAYERS)
    folder = ROOT / "kvagent"
    if rest and (
        rest[0] in known or (folder / rest[0]).is_dir() or (folder / f"{rest[0]}.py").is_file()
    ):
        return rest[0]
    return "__init__"


def core_files() -> list[Path]:
    """The modules of the core, relative to the checkout."""
    return sorted(path.relative_to(ROOT) for path in (ROOT / "kvagent").rglob("*.py"))


def read(path: Path) -> tuple[str, list[Import]]:
    """The module's name, and its imports."""
    is_package = path.name == "__init__.py"
    parts = path.parent.parts if is_package else path.with_suffix("").parts
    module = ".".join(parts)
    text = (ROOT / path).read_text(encoding="utf-8")
    return module, imports_of(text, module, is_package=is_package)


def neighbours(*, types_too: bool) -> dict[str, set[str]]:
    """For each room, the other rooms that it imports."""
    graph: dict[str, set[str]] = {}
    for path in core_files():
        module, imports = read(path)
        room = room_of(module) or ""
        targets = {room_of(found.target) for found in imports if types_too or not found.for_types}
        graph.setdefault(room, set()).update(
            target for target in targets if target and target != room
        )
    return graph


@functools.cache
def ranks() -> dict[str, int]:
    """How high each room stands, from 0."""
    rank = {room: height for height, rooms in enumerate(LAYERS) for room in rooms}
    drawn = frozenset(rank)
    graph = neighbours(types_too=True)
    for _ in graph:  # a chain of rooms that are in no layer is at most this long
        for room, targets in graph.items():
            if room not in drawn:
                rank[room] = max((rank.get(target, 0) for target in targets), default=0)
    return rank


def faults_of(module: str, imports: list[Import]) -> list[str]:
    """What `module` imports against the rules, one sentence each, with the line."""
    room = room_of(module)
    assert room is not None
    faults: list[str] = []
    for found in imports:
        where = f"{module}, line {found.line}: {found.target}"
        top = found.target.split(".")[0]
        target = room_of(found.target)
        if target is not None:
            if target == room:
                continue
            if room in ALONE:
                faults.append(f"{where}: {room} imports nothing else of kvagent")
            elif target not in ALONE and ranks().get(target, 0) > ranks()[room]:
                faults.append(f"{where}: {target} is above {room}")
        elif top in FOREIGN:
            home, allowed = DEMO
            in_demo = module == home or module.startswith(f"{home}.")
            if not (in_demo and top in allowed):
                faults.append(f"{where}: the core knows no SDK, framework or HTTP client")
            elif not (found.in_function or found.for_types):
                faults.append(f"{where}: import it inside the function that needs it")
        elif not (
            top in sys.stdlib_module_names
            or top in DEPENDENCIES
            or found.in_function
            or found.for_types
        ):
            faults.append(f"{where}: {top} is optional, import it inside the function")
    return faults


@pytest.mark.parametrize("path", core_files(), ids=str)
def test_a_module_imports_only_what_its_room_may(path: Path) -> None:
    module, imports = read(path)
    assert faults_of(module, imports) == []


def test_neighbours_do_not_import_each_other() -> None:
    TopologicalSorter(neighbours(types_too=False)).prepare()  # CycleError names the circle


# ChatOpenAI stands on the SDK of OpenAI: what reaches through to its HTTP client uses the adapter for that.
THROUGH_THE_SDK = frozenset({"kvagent_langchain.chat_model", "kvagent_langchain.server"})


@pytest.mark.parametrize("name", ["langchain", "openai"])
def test_an_adapter_translates_for_one_framework_only(name: str) -> None:
    """It knows no other adapter and no command, and names no HTTP client: the SDK brings the one it was built on."""
    folder = ROOT / "integrations" / name / f"kvagent_{name}"
    for path in sorted(folder.rglob("*.py")):
        module = ".".join(path.relative_to(folder.parent).with_suffix("").parts)
        for found in imports_of(path.read_text(encoding="utf-8"), module):
            where = f"{path.relative_to(ROOT)}, line {found.line}: {found.target}"
            top = found.target.split(".")[0]
            other = top in {"kvagent_langchain", "kvagent_openai"} - {folder.name}
            assert not other or module in THROUGH_THE_SDK, where
            assert room_of(found.target) not in {"audit", "cli", "testing"}, where
            assert found.for_types or top not in {"httpx", "httpx2"}, where


@pytest.mark.parametrize(
    ("module", "source", "fault"),
    [
        ("kvagent.stages.evict", "from ..engine import Engine", "engine is above stages"),
        ("kvagent.chat", "import kvagent.ledger", "ledger is above chat"),
        ("kvagent.engine", "from kvagent import wrap", "__init__ is above engine"),
        ("kvagent.engine", "def f():\n    import openai", "the core knows no SDK"),
        ("kvagent.tokens", "import jinja2", "jinja2 is optional"),
        ("kvagent.prefixcache.blocks", "from kvagent import chat", "imports nothing else"),
        ("kvagent.session", "from kvagent.chat import Message", "chat is above session"),
        ("kvagent.cli.demo.agent", "import openai", "inside the function"),
        ("kvagent.cli.rewrite", "def f():\n    import openai", "the core knows no SDK"),
        (
            "kvagent.chat",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .engine import Engine",
            "engine is above chat",
        ),
    ],
)
def test_a_fault_is_found(module: str, source: str, fault: str) -> None:
    (sentence,) = faults_of(module, imports_of(source, module))
    assert fault in sentence


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("kvagent.engine", "from . import chat, ledger\nfrom .stages import evict"),
        ("kvagent.stages.evict", "from .echo import Echo\nfrom ..chat import Message"),
        ("kvagent.tokens", "def f():\n    import jinja2"),
        ("kvagent.cli.demo.agent", "async def f():\n    from openai import OpenAI"),
        ("kvagent.testing", "from kvagent import wrap\nfrom kvagent.engine import Engine"),
        ("kvagent.meter", "import sys\nfrom kvagent.prefixcache import blocks"),
    ],
)
def test_what_is_allowed_is_no_fault(module: str, source: str) -> None:
    assert faults_of(module, imports_of(source, module)) == []
