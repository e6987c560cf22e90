"""The tree of messages against a plain recursion over (id, parent) pairs."""

from hypothesis import given
from hypothesis import strategies as st

from app.state.talk.message import Message
from app.state.talk.tree import Tree


def message(number: int, parent: int | None) -> Message:
    return Message(number, 1, parent, "user", str(number))


def shown(tree: Tree) -> list[int]:
    return [m.id for m in tree.path()]


def test_the_newest_is_chosen_unless_another_was() -> None:
    tree = Tree([message(1, None), message(2, 1), message(3, 1), message(4, 3), message(5, None)])
    assert shown(tree) == [5]
    tree.choose(tree.messages[1])
    assert shown(tree) == [1, 3, 4]
    tree.choose(tree.messages[2])
    assert shown(tree) == [1, 2]
    assert [(m.place, m.siblings) for m in tree.path()] == [(0, 2), (0, 2)]
    tree.choose(tree.messages[3])
    assert shown(tree) == [1, 3, 4]
    assert [m.id for m in tree.up_to(tree.messages[4])] == [1, 3, 4]


def test_each_node_remembers_its_branch() -> None:
    pairs = [(1, None), (2, 1), (3, 1), (4, 2), (5, 2), (6, 3)]
    tree = Tree([message(*pair) for pair in pairs], {None: 1, 1: 2, 2: 4})
    assert shown(tree) == [1, 2, 4]
    tree.choose(tree.messages[3])
    tree.choose(tree.messages[2])
    assert shown(tree) == [1, 2, 4]


def test_removing_shows_the_sibling_beside() -> None:
    tree = Tree([message(1, None), message(2, 1), message(3, 1), message(4, 1), message(5, 3)])
    tree.choose(tree.messages[3])
    tree.remove(tree.messages[3])
    assert shown(tree) == [1, 4]
    assert set(tree.messages) == {1, 2, 4}
    tree.remove(tree.messages[4])
    tree.remove(tree.messages[2])
    assert shown(tree) == [1]
    tree.remove(tree.messages[1])
    assert (shown(tree), tree.messages) == ([], {})


def test_removing_the_first_shows_the_next_and_not_the_newest() -> None:
    tree = Tree([message(1, None), message(2, None), message(3, None)])
    tree.choose(tree.messages[1])
    tree.remove(tree.messages[1])
    assert shown(tree) == [2]


def test_removing_another_leaves_the_choice() -> None:
    tree = Tree([message(1, None), message(2, None), message(3, None)])
    tree.choose(tree.messages[1])
    tree.remove(tree.messages[2])
    assert shown(tree) == [1]


@given(st.lists(st.integers(0, 30), max_size=30), st.data())
def test_any_tree(parents: list[int], data: st.DataObject) -> None:
    pairs = [(n + 1, (p % (n + 1)) or None) for n, p in enumerate(parents)]
    tree = Tree([message(*pair) for pair in pairs])
    if not pairs:
        assert tree.path() == []
        return
    gone = data.draw(st.sampled_from(pairs))[0]
    chosen = data.draw(st.sampled_from(pairs))[0]
    tree.choose(tree.messages[chosen])
    before = shown(tree)
    removed = tree.remove(tree.messages[gone])

    def left(number: int | None) -> bool:
        parent = dict(pairs).get(number or 0)
        return number is None or (number != gone and left(parent))

    expected = {n for n, _ in pairs if left(n)}
    assert set(tree.messages) == expected
    path = tree.path()
    assert [m.parent for m in path] == [None, *[m.id for m in path[:-1]]][: len(path)]
    assert not path or not tree.has_children(path[-1])
    assert bool(path) == bool(expected)
    if chosen in expected and dict(pairs)[chosen] is None:
        assert path[0].id == chosen
    tree.put_back(removed)
    assert set(tree.messages) == {n for n, _ in pairs}
    if gone in before:
        assert shown(tree) == before
