"""Do parent and child both go on after a fork? Each test forks in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="knows no fork")

PROLOGUE = """
import os, signal, sqlite3, sys, threading
from kvagent.stores import MemoryStore, Resilient
from kvagent.stores.sqlite import SQLiteStore

def fork(child, leave=os._exit):
    pid = os.fork()
    if not pid:
        signal.alarm(60)  # ends a child that waits for a lock which nobody holds
        child()
        leave(0)
    assert os.waitpid(pid, 0)[1] == 0
"""


def run(script: str, path: Path) -> None:
    arguments = ["-W", "ignore::DeprecationWarning", "-c", PROLOGUE + script, str(path)]
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("leave", ["os._exit", "sys.exit"])
def test_parent_and_child_share_the_file(tmp_path: Path, leave: str) -> None:
    script = f"""
store = SQLiteStore(sys.argv[1])
store.add("a", b"key", b"of the parent")
store.get("a", b"key")

def child():
    assert store.get("a", b"key") == (b"of the parent",)
    for number in range(50):
        store.add("a", b"child", b"%d" % number)

fork(child, {leave})
store.add("a", b"key", b"later")
fork(lambda: None, {leave})  # a child that uses nothing harms nothing
assert store.get("a", b"key") == (b"of the parent", b"later")
assert len(store.get("a", b"child")) == 50
store.close()
connection = sqlite3.connect(sys.argv[1])
assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
connection.close()
"""
    run(script, tmp_path / "store.db")


def test_parent_and_children_write_at_once(tmp_path: Path) -> None:
    script = """
store = SQLiteStore(sys.argv[1], timeout=60)
store.add("a", b"key", b"first")
children = []
for child in range(3):
    pid = os.fork()
    if not pid:
        for number in range(100):
            store.add("a", b"key", b"%d of %d" % (number, child))
        os._exit(0)
    children.append(pid)
for number in range(100):
    store.add("a", b"key", b"%d of the parent" % number)
assert [os.waitpid(pid, 0)[1] for pid in children] == [0, 0, 0]
assert len(store.get("a", b"key")) == 401
store.close()
"""
    run(script, tmp_path / "store.db")


def test_no_connection_crosses_a_fork(tmp_path: Path) -> None:
    """An inherited one would share with the parent what it believes about locks."""
    script = """
store = SQLiteStore(sys.argv[1])
store.add("a", b"key", b"value")
store.get("a", b"key")

def child():
    assert not [fd for fd in os.listdir("/proc/self/fd") if "store.db" in target(fd)]

def target(fd):
    try:
        return os.readlink("/proc/self/fd/" + fd)
    except OSError:
        return ""

if os.path.isdir("/proc/self/fd"):
    fork(child)
store.close()
"""
    run(script, tmp_path / "store.db")


def test_a_fork_amid_busy_threads_leaves_no_lock_behind(tmp_path: Path) -> None:
    script = """
memory = MemoryStore()
sqlite = Resilient(SQLiteStore(sys.argv[1], timeout=60))
stop = threading.Event()

def work(name):
    number = 0
    while not stop.is_set():
        number += 1
        for store in (memory, sqlite):
            store.add("a", name, b"%d" % (number % 100))
            store.get("a", name)

threads = [threading.Thread(target=work, args=(b"%d" % name,)) for name in range(4)]
for thread in threads:
    thread.start()

def child():
    for store in (memory, sqlite):
        store.add("a", b"child", b"value")
        assert store.get("a", b"child") == (b"value",)
    assert sqlite.problem is None

for _ in range(10):
    fork(child)
stop.set()
for thread in threads:
    thread.join()
assert sqlite.problem is None
sqlite.close()
"""
    run(script, tmp_path / "store.db")


def test_threads_may_fork_at_once(tmp_path: Path) -> None:
    script = """
store = Resilient(SQLiteStore(sys.argv[1], timeout=60))
store.add("a", b"key", b"value")

def child():
    assert store.get("a", b"key") == (b"value",)

threads = [threading.Thread(target=fork, args=(child,)) for _ in range(6)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert store.get("a", b"key") == (b"value",)
store.close()
"""
    run(script, tmp_path / "store.db")
