"""Is what was sent kept, found again, and forgotten in time?"""

from __future__ import annotations

import gc
import sqlite3
import tracemalloc
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import orjson
import pytest

from kvagent.entry import Entry, Facts, Head, Reply, Sent
from kvagent.fingerprint import identity, meaning
from kvagent.ledger import Ledger, Tree
from kvagent.stores import MemoryStore, Store
from kvagent.stores.sqlite import SQLiteStore
from tests.wire import Message, call, result, say

HEAD = Head((identity(say("system", "Be brief.")),), None, (b"m",), {}, {})
FACTS = Facts(1)


def sent(message: Message, went: Message | None = None, **fields: Any) -> Sent:
    raw = identity(message)
    return Sent(
        meaning(message),
        str(message["role"]),
        raw,
        raw if went is None else identity(went),
        fields.get("noted", False),
        fields.get("tokens", 1),
    )


def extend(tree: Tree, tip: Entry, *messages: Message | Sent, **fields: Any) -> Entry:
    return tree.extend(
        tip,
        [m if isinstance(m, Sent) else sent(m) for m in messages],
        fields.get("head", HEAD),
        fields.get("told", {}),
        fields.get("session"),
        fields.get("facts", FACTS),
        [Reply.of(reply) for reply in fields.get("replies", ())],
    )


def new_tree(max_bytes: int = 1 << 30, store: Store | None = None) -> Tree:
    return Ledger(store or MemoryStore(), max_bytes).tree("", "m")


def entries(tree: Tree) -> Iterator[Entry]:
    waiting = [tree.root]
    while waiting:
        for siblings in waiting.pop().children.values():
            yield from siblings
            waiting += siblings


def weight(tree: Tree) -> int:
    heads = {id(entry.head): entry.head.weight for entry in entries(tree) if entry.head}
    return sum(entry.weight for entry in entries(tree)) + sum(heads.values())


def texts(tip: Entry) -> list[str]:
    return [orjson.loads(entry.sent)["content"] for entry in tip.path()]


def test_a_path_leads_from_the_first_message_to_the_last() -> None:
    tree = new_tree()
    tip = extend(tree, tree.root, say("user", "a"), say("assistant", "b"), say("user", "c"))
    assert texts(tip) == ["a", "b", "c"]
    assert tip.depth == 3


def test_branches_share_their_beginning() -> None:
    tree = new_tree()
    middle = extend(tree, tree.root, say("user", "a"))
    left = extend(tree, middle, say("assistant", "b"))
    right = extend(tree, middle, say("assistant", "c"))
    assert left.parent is right.parent is middle
    assert len(list(entries(tree))) == 3


def test_the_same_bytes_under_the_same_head_are_one_entry() -> None:
    tree = new_tree()
    one = extend(tree, tree.root, say("user", "a"))
    again = extend(tree, tree.root, say("user", "a"))
    assert one is again


def test_another_head_makes_another_entry() -> None:
    tree = new_tree()
    other = Head((b"other",), None, (b"o",), {}, {})
    extend(tree, tree.root, say("user", "a"))
    extend(tree, tree.root, say("user", "a"), head=other)
    assert len(tree.children(tree.root, meaning(say("user", "a")))) == 2


def test_a_note_of_one_session_is_not_shared_with_another() -> None:
    tree = new_tree()
    noted = sent(say("user", "a"), say("user", "a\n\n[note] id 7"), noted=True)
    one = extend(tree, tree.root, noted, session="one")
    two = extend(tree, tree.root, noted, session="two")
    assert one is not two
    assert weight(tree) == tree.ledger.size


def test_replies_are_kept_once_and_only_the_newest_eight() -> None:
    tree = new_tree()
    tip = extend(tree, tree.root, say("user", "a"), replies=[say("assistant", "b")] * 2)
    assert len(tip.replies) == 1
    for number in range(12):
        extend(tree, tree.root, say("user", "a"), replies=[say("assistant", str(number))])
    assert [reply.message["content"] for reply in tip.replies] == [str(n) for n in range(4, 12)]


def test_a_request_without_messages_changes_nothing() -> None:
    tree = new_tree()
    assert extend(tree, tree.root) is tree.root
    assert tree.ledger.size == 0


def test_what_the_model_knows_changes_at_the_note_and_not_before() -> None:
    """Another branch may begin in front of the note."""
    tree = new_tree()
    head = Head((b"at [see newest note]",), None, (b"m",), {}, {}, frozenset([0]))
    noted = sent(say("user", "c"), say("user", "c\n\n[note] at 2"), noted=True)
    first = sent(say("user", "a"), say("user", "a\n\n[note] at 1"), noted=True)
    old = extend(tree, tree.root, first, head=head, told={0: "1"})
    tip = extend(tree, old, say("assistant", "b"), noted, head=head, told={0: "2"})
    assert [entry.told for entry in tip.path()] == [{0: "1"}, {0: "1"}, {0: "2"}]


def test_what_the_model_knows_of_a_head_that_shows_it() -> None:
    tree = new_tree()
    noted = sent(say("user", "c"), say("user", "c\n\n[note] at 2"), noted=True)
    tip = extend(tree, tree.root, say("user", "a"), told={0: "1"})
    tip = extend(tree, tip, say("assistant", "b"), noted, told={0: "2"})
    assert [entry.told for entry in tip.path()] == [{0: "1"}, {0: "1"}, {0: "2"}]


def test_forms_of_a_message_are_remembered_but_not_without_end() -> None:
    tree = new_tree()
    extend(tree, tree.root, say("user", "a"))
    name = meaning(say("user", "a"))
    for number in range(100):
        tree.root.alias(b"form %d" % number, name)
    assert len(tree.root.aliases) < 10


# --- memory


def test_the_size_is_the_weight_of_all_entries() -> None:
    tree = new_tree()
    for number in range(20):
        tip = extend(tree, tree.root, say("user", "a" * number), say("assistant", "b"))
        extend(tree, tip, sent(result("x", "long" * 99), result("x", "short")))
    assert tree.ledger.size == weight(tree) > 0


def test_the_conversation_used_least_lately_is_forgotten() -> None:
    tree = new_tree(max_bytes=40_000)
    first = say("user", "first")
    for number in range(60):
        extend(tree, extend(tree, tree.root, first), say("assistant", "again"))  # in use
        tip = extend(tree, tree.root, say("user", f"number {number}"))
        extend(tree, tip, say("assistant", "x" * 500), say("user", "y" * 500))
    assert tree.ledger.size == weight(tree) <= 40_000
    assert tree.children(tree.root, meaning(first))
    assert tree.children(tree.root, meaning(say("user", "number 59")))
    assert not tree.children(tree.root, meaning(say("user", "number 0")))
    assert set(tree.newest.values()) <= set(entries(tree))


def test_equal_heads_are_one_and_weigh_once() -> None:
    tree = new_tree()
    heads = [Head((b"x" * 10_000,), None, (b"m",), {}, {}) for _ in range(5)]
    tips = [extend(tree, tree.root, say("user", f"{n}"), head=h) for n, h in enumerate(heads)]
    assert {tip.head for tip in tips} == {heads[0]}
    assert 10_000 < tree.ledger.size == weight(tree) < 20_000


def test_a_head_is_forgotten_with_its_conversations() -> None:
    tree = new_tree(max_bytes=50_000)
    for number in range(30):
        head = Head((b"%d" % number * 4_000,), b"[]", (b"%d" % number,), {}, {})
        tip = extend(tree, tree.root, say("user", "hello"), head=head)
        extend(tree, tip, say("user", f"more {number}"), head=head)
    assert tree.ledger.size == weight(tree) <= 50_000
    assert len(tree.ledger._held) < 10


def test_a_tree_is_forgotten_with_its_conversations() -> None:
    ledger = Ledger(MemoryStore(), 5_000)
    for number in range(200):
        tree = ledger.tree(f"tenant {number}", "m")
        extend(tree, tree.root, say("user", "hello"))
    assert len(ledger._trees) < 10
    assert ledger._trees[("tenant 199", "m")] is tree
    kept = [tree for tree in ledger._trees.values() if tree.root.children]
    assert len(kept) == len(ledger._trees)


def test_messages_are_kept_in_no_more_memory_than_they_need() -> None:
    """What orjson writes keeps 4 KiB at least, however short it is."""
    tree = new_tree()
    tracemalloc.start()
    tip = tree.root
    for number in range(500):
        tip = extend(tree, tip, say("user", f"question {number}"))
    needed = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert 0.5 < needed / tree.ledger.size < 1.5


def test_a_branch_is_forgotten_and_the_shared_part_stays() -> None:
    tree = new_tree(max_bytes=8_000)
    shared = extend(tree, tree.root, say("user", "shared"))
    for number in range(30):
        extend(tree, shared, say("assistant", f"branch {number}"), say("user", "z" * 300))
    assert 0 < len(list(entries(tree))) < 20
    assert shared.parent is tree.root
    assert tree.children(tree.root, shared.meaning) == (shared,)
    assert tree.ledger.size == weight(tree)


def test_one_conversation_larger_than_the_memory_is_kept_while_it_is_used() -> None:
    tree = new_tree(max_bytes=1_000)
    tip = tree.root
    for number in range(10):
        tip = extend(tree, tip, say("user", f"{number}" * 400))
    assert texts(tip) == [f"{number}" * 400 for number in range(10)]
    assert len(list(entries(tree))) == 10


def test_a_conversation_forgotten_meanwhile_goes_on() -> None:
    """Its tip is still held by whoever answers it just now."""
    tree = new_tree(max_bytes=6_000)
    tip = extend(tree, tree.root, say("user", "slow"), say("assistant", "b"), say("user", "c"))
    for number in range(20):
        extend(tree, tree.root, say("user", f"{number}" * 300))
    assert not tree.children(tree.root, meaning(say("user", "slow")))
    tip = extend(tree, tip, say("assistant", "d"))
    assert tree.ledger.size == weight(tree)
    assert tree.children(tree.root, meaning(say("user", "slow")))
    for number in range(20):
        extend(tree, tree.root, say("user", f"{number}" * 300))
    assert tree.ledger.size == weight(tree)


def test_a_forgotten_conversation_is_asked_again() -> None:
    """A retry adds no message; what it was about stands in the tree again all the same."""
    tree = new_tree(max_bytes=6_000)
    tip = extend(tree, tree.root, say("user", "slow"), say("assistant", "b"), say("user", "c"))
    for number in range(20):
        extend(tree, tree.root, say("user", f"{number}" * 300))
    assert extend(tree, tip, replies=[say("assistant", "d")]) is tip
    assert tip in list(entries(tree))
    for number in range(20):
        extend(tree, tree.root, say("user", f"{number}" * 300))
    assert tree.ledger.size == weight(tree)


def test_a_forgotten_conversation_is_garbage() -> None:
    tree = new_tree(max_bytes=20_000)
    for number in range(300):
        tip = extend(tree, tree.root, say("user", f"question {number}"))
        extend(tree, tip, call(f"c{number}"), replies=[say("assistant", "a")])
    gc.collect()
    alive = sum(isinstance(thing, Entry) for thing in gc.get_objects())
    assert alive < 100
    assert len(tree.newest) <= alive
    assert len(tree.answered) <= alive


# --- a durable store


@pytest.fixture
def store(tmp_path: Any) -> Iterator[SQLiteStore]:
    store = SQLiteStore(tmp_path / "ledger.sqlite3")
    yield store
    store.close()


def test_a_conversation_is_read_again(store: SQLiteStore) -> None:
    before = new_tree(store=store)
    head = Head(
        (b"system",), b"[1]", (b"m",), {b"t": b"1"}, {"reasoning_effort": b'"low"'}, frozenset([0])
    )
    noted = sent(say("user", "a"), say("user", "a\n\n[note] 7"), noted=True, tokens=40)
    facts = Facts(3, 100, 20, (5, 6), 0.7)
    tip = extend(
        before, before.root, noted, call("1", arguments={"é": 1}, content="Ω"),
        head=head, told={0: "7"}, session="s", facts=facts, replies=[say("assistant", "r")],
    )  # fmt: skip
    after = new_tree(store=store)
    (first,) = after.children(after.root, noted.meaning)
    (second,) = after.children(first, tip.meaning)
    for old, new in zip(tip.path(), second.path(), strict=True):
        for name in ("key", "meaning", "role", "raw", "sent", "told", "noted", "session", "depth"):
            assert getattr(new, name) == getattr(old, name), name
        assert new.tokens == old.tokens
    assert second.facts == facts
    assert [reply.message for reply in second.replies] == [say("assistant", "r")]
    assert second.head is first.head
    assert second.head is not None
    for name in ("system", "tools", "meanings", "tool_forms", "options", "hidden", "key"):
        assert getattr(second.head, name) == getattr(head, name), name
    assert after.ledger.size == weight(after) == before.ledger.size


def test_what_memory_forgets_the_store_gives_back(store: SQLiteStore) -> None:
    tree = new_tree(max_bytes=5_000, store=store)
    for number in range(30):
        extend(tree, tree.root, say("user", f"question {number}"), say("assistant", "a" * 300))
    for number in range(30):
        (first,) = tree.children(tree.root, meaning(say("user", f"question {number}")))
        assert texts(first) == [f"question {number}"]
        assert tree.children(first, meaning(say("assistant", "a" * 300)))
        assert tree.ledger.size == weight(tree) < 10_000


def test_a_record_that_cannot_be_read_is_none(store: SQLiteStore) -> None:
    """Perhaps a later version of kvagent wrote it, or the file is damaged."""
    tree = new_tree(store=store)
    extend(tree, tree.root, say("user", "a"), replies=[say("assistant", "b")])
    for key in ("entry", "head", "facts", "reply", "volatile"):
        spoil(store, key)
    after = new_tree(store=store)
    assert after.children(after.root, meaning(say("user", "a"))) == ()
    assert after.slots(b"skeleton", ("7",)).first == ("7",)
    tip = extend(after, after.root, say("user", "a"))
    assert after.children(after.root, tip.meaning) == (tip,)


def spoil(store: SQLiteStore, kind: str) -> None:
    with closing(sqlite3.connect(store.path)) as file, file:
        file.execute("UPDATE entry SET value = ? WHERE instr(key, ?) = 1", [b"{]", kind.encode()])


def test_what_came_after_a_message_is_found_without_asking_for_it(store: SQLiteStore) -> None:
    before = new_tree(store=store)
    tip = extend(before, before.root, say("user", "a"))
    for text in ("b", "c"):
        extend(before, tip, say("assistant", text))
    after = new_tree(store=store)
    ((first,),) = after.followers(after.root)
    assert [texts(entry)[-1] for (entry,) in after.followers(first)] == ["b", "c"]
    assert after.ledger.size == weight(after) == before.ledger.size


def test_a_place_seen_to_change_is_known_to_the_next_process(store: SQLiteStore) -> None:
    before = new_tree(store=store)
    slots = before.slots(b"skeleton", ("7", "8"))
    before.mark_changing(b"skeleton", slots, frozenset([1]))
    after = new_tree(store=store).slots(b"skeleton", ("9", "9"))
    assert after.first == ("7", "8")
    assert after.changing == {1}


def test_namespaces_and_models_are_apart() -> None:
    ledger = Ledger(MemoryStore(), 1 << 20)
    first = say("user", "a")
    extend(ledger.tree("one", "m"), ledger.tree("one", "m").root, first)
    for name in (("two", "m"), ("one", "n")):
        tree = ledger.tree(*name)
        assert tree.children(tree.root, meaning(first)) == ()
