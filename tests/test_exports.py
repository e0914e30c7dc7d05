"""Is what kvagent exports what it says it exports, and does importing it stay light?"""

from __future__ import annotations

import importlib.resources
import json
import pkgutil
import subprocess
import sys
from types import ModuleType

import pytest

PACKAGES = ("kvagent", "kvagent_openai")

# Imported where they are used: `import kvagent` stands at the head of programs that may never need them.
HEAVY = frozenset(
    {"click", "httpx", "httpx2", "jinja2", "openai", "rich", "tiktoken", "tokenizers", "typer"}
    # Parts of pydantic that models of our kind do without.
    | {"email_validator", "pydantic.v1", "pydantic_extra_types", "pydantic_settings"}
)


def package(name: str) -> ModuleType:
    """The package, which the test is skipped without."""
    module: ModuleType = pytest.importorskip(name)
    return module


def order(name: str) -> tuple[int, str]:
    """Constants, then classes, then functions, each by name: the order that the linter makes."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)


@pytest.mark.parametrize("name", PACKAGES)
def test_all_is_sorted_and_has_no_name_twice(name: str) -> None:
    names = package(name).__all__
    assert list(names) == sorted(set(names), key=order)


@pytest.mark.parametrize("name", PACKAGES)
def test_every_name_in_all_can_be_imported(name: str) -> None:
    module = package(name)
    for exported in module.__all__:
        assert getattr(module, exported) is not None, exported


@pytest.mark.parametrize("name", PACKAGES)
def test_no_public_name_is_missing_from_all(name: str) -> None:
    """What a module defines or takes from its own package is public unless its name begins with an underscore."""
    module = package(name)
    ours = {
        public
        for public, value in vars(module).items()
        if not public.startswith("_")
        and not isinstance(value, ModuleType)
        and str(getattr(value, "__module__", "")).split(".")[0] == name
    }
    assert ours <= set(module.__all__)


def in_a_new_process(code: str) -> str:
    """What `code` prints in an interpreter that has imported nothing of ours."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_kvagent_imports_nothing_heavy() -> None:
    printed = in_a_new_process("import json, sys, kvagent; print(json.dumps(sorted(sys.modules)))")
    assert HEAVY.intersection(json.loads(printed)) == set()


def test_a_name_means_the_same_whatever_was_imported_before() -> None:
    """A module of the package may bear the name of something exported, as `session` does; the export must win."""
    module = package("kvagent")
    before = {name: type(getattr(module, name)).__name__ for name in module.__all__}
    code = "\n".join(
        [
            "import importlib, json, kvagent",
            *(f"importlib.import_module('kvagent.{name}')" for name in submodules(module)),
            "names = {name: type(getattr(kvagent, name)).__name__ for name in kvagent.__all__}",
            "print(json.dumps(names))",
        ]
    )
    assert json.loads(in_a_new_process(code)) == before


def submodules(module: ModuleType) -> list[str]:
    """The modules and packages directly inside `module`; `__main__` is a program and is left out."""
    return [
        found.name for found in pkgutil.iter_modules(module.__path__) if found.name != "__main__"
    ]


@pytest.mark.parametrize("name", PACKAGES)
def test_the_package_is_marked_as_typed(name: str) -> None:
    assert (importlib.resources.files(package(name)) / "py.typed").is_file()
