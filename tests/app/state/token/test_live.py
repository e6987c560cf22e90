"""What a running answer tells of its words, and who asks it to."""

import msgspec
from pytestqt.qtbot import QtBot

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
    other = talk.client.ask(Generate(0, prompt="aside"))
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
