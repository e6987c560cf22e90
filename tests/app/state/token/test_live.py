"""What a running answer tells of its words, and who asks it to."""

import msgspec
from pytestqt.qtbot import QtBot

from app.state.selection import Selected
from app.state.workbench import Workbench
from engine.protocol import Examine, Generate, Live, Look, TokenInside
from tests.app.helpers import inside
from tests.app.helpers.scripted import ScriptedEngine
from tests.app.state.token.asking import asked


def told(engine: ScriptedEngine, index: int, **fields: object) -> TokenInside:
    """What a running answer tells of one of its tokens."""
    request = engine.last_of(Generate)
    assert isinstance(request, Generate)
    context = inside.items(Examine(0, messages=request.messages))
    places = len(context.ids) // 4 + index
    full: dict[str, object] = {
        "lens": inside.lens(7, " it"),
        "attention": inside.attended(places, []),
        "context": context if index == 0 else None,
    }
    return TokenInside(request.id, index, **(full | fields))  # type: ignore[arg-type]


def test_a_running_answer_is_asked_to_tell_while_it_is_followed(
    talk: Workbench, engine: ScriptedEngine
) -> None:
    assert talk.chat.live.value == Live()
    talk.preferences.update(token_live=True)
    wanted = Live(lens=True, attention=True, choice=True, step=True)
    assert talk.chat.live.value == wanted
    talk.selection.select_layer(3)
    assert talk.chat.live.value.rows == [3]
    talk.selection.select_layer(None)
    assert talk.chat.send("And of Italy?")
    generate = engine.last_of(Generate)
    assert isinstance(generate, Generate)
    assert generate.live == wanted
    engine.write("Rome")
    talk.selection.select_token(talk.chat.path[1].id, 0)
    assert engine.last == Look(generate.id, Live())
    talk.token.follow()
    assert engine.last == Look(generate.id, wanted)
    talk.token.shown(False)
    assert engine.last == Look(generate.id, Live())
    talk.token.shown(True)
    talk.token.toggle_live()
    assert engine.last == Look(generate.id, Live())
    assert [r.live for r in engine.asked if isinstance(r, Look)] == [Live(), wanted] * 2 + [Live()]


def test_what_a_running_answer_tells_is_shown_at_once(
    talk: Workbench, engine: ScriptedEngine, qtbot: QtBot
) -> None:
    talk.preferences.update(token_live=True)
    assert talk.chat.send("And of Italy?")
    before = len(asked(engine))
    engine.write("Rome", " it", " is")
    engine.say(told(engine, 0), told(engine, 1))
    token, answer = talk.token, talk.chat.path[3]
    assert token.word is not None
    assert token.word.key == (answer.id, 1)
    assert token.inside is not None
    assert token.inside.lens is not None
    assert token.lights(answer.id)[0][:2] == (0, 4)  # the answer's own words follow the context
    assert token.lights(talk.chat.path[0].id)
    engine.write(",")
    assert token.word.key == (answer.id, 1), "no more is known of newer words"
    step = inside.step()
    engine.say(told(engine, 2, lens=None, attention=None, step=step))
    assert token.inside.step == step
    engine.say(told(engine, 3))
    assert token.word.text == ","
    assert token.inside.step == step
    assert len(asked(engine)) == before
    engine.write(" too")
    engine.end(n=5)
    assert token.word.key == (answer.id, 4)
    assert token.inside.lens is None
    qtbot.waitUntil(lambda: len(asked(engine)) > before)


def test_what_another_answer_tells_is_not_shown(talk: Workbench, engine: ScriptedEngine) -> None:
    talk.preferences.update(token_live=True)
    assert talk.chat.send("And of Italy?")
    engine.write("Rome")
    other = talk.client.send(Generate(0, prompt="aside"))
    engine.say(msgspec.structs.replace(told(engine, 0), id=other))
    assert talk.token.inside is not None
    assert talk.token.inside.lens is None


def test_after_a_shift_the_places_are_new(talk: Workbench, engine: ScriptedEngine) -> None:
    talk.preferences.update(token_live=True)
    assert talk.chat.send("And of Italy?")
    engine.write(*(f" w{n}" for n in range(40)))
    shifted = inside.items(Examine(0, messages=[]))  # the chat is gone but for the template
    engine.say(told(engine, 30, context=shifted, attention=inside.attended(3 + 8, [])))
    engine.say(told(engine, 38, attention=inside.attended(3 + 8, [])))
    text = talk.chat.path[3].text
    lit = [text[first:last] for first, last, _ in talk.token.lights(talk.chat.path[3].id)]
    assert lit == [f" w{n}" for n in range(30, 38)]


def test_another_chat_or_branch_leaves_the_token_and_going_back_opens_it(
    talk: Workbench, engine: ScriptedEngine
) -> None:
    first, answer = talk.chat.chat_id, talk.chat.path[1].id
    talk.selection.select_token(answer, 2)
    talk.selection.select_tensor("token_embd.weight", None)
    talk.chat.open(None)
    assert talk.selection.now == Selected(tensor="token_embd.weight")
    assert talk.token.word is None
    talk.selection.back()
    assert talk.chat.chat_id == first
    assert talk.selection.now.token == (answer, 2)
    assert talk.token.word is not None
    assert talk.token.word.text == " is"
    assert talk.chat.regenerate(1)
    assert talk.selection.now.token is None
    engine.write("Lyon")
    engine.end(n=1)
    assert talk.chat.delete_message(1)
    assert talk.chat.path[1].id == answer
    talk.selection.select_token(answer, 0)
    assert talk.chat.delete_message(1)
    while talk.selection.has_past:
        talk.selection.back()
        assert talk.selection.now.token is None, "the message is gone"


def test_following_goes_on_after_leaving_the_chat_and_coming_back(
    talk: Workbench, engine: ScriptedEngine
) -> None:
    talk.preferences.update(token_live=True)
    assert talk.chat.send("And of Italy?")
    engine.write("Rome", " it", " is")
    answer, chat = talk.chat.path[3].id, talk.chat.chat_id
    engine.say(told(engine, 0), told(engine, 1))
    talk.chat.open(None)
    engine.say(told(engine, 2))
    assert talk.token.word is None, "it is a word of another chat"
    talk.chat.open(chat)
    assert talk.token.word is not None
    assert talk.token.word.key == (answer, 2)
    assert talk.token.lights(answer), "the context that was sent once is still known"
    engine.write(" so")
    engine.say(told(engine, 3))
    assert talk.token.word.key == (answer, 3)


def test_following_goes_on_after_a_word_was_selected_here_and_elsewhere(
    talk: Workbench, engine: ScriptedEngine
) -> None:
    talk.preferences.update(token_live=True)
    before, first = talk.chat.path[1].id, talk.chat.chat_id
    assert talk.chat.send("And of Italy?")
    engine.write("Rome", " it")
    answer = talk.chat.path[3].id
    engine.say(told(engine, 0))
    talk.selection.select_token(before, 1)
    talk.chat.open(None)
    talk.chat.open(first)
    engine.say(told(engine, 1))
    assert talk.token.following
    assert talk.token.word is not None
    assert talk.token.word.key == (answer, 1)
    assert talk.token.lights(answer)
