"""Tokens of a server in the terminal: ids that it does not give are not made up."""

from app.remote.frames import Likely, token_of
from app.terminal.answer import PrintedAnswer, as_json, logprob_table
from engine.protocol import Finished, Loaded, Stats

LOADED = Loaded(1, "/x", "m", "llama", "server s", "h", 1, 1, 1, "file")
STATS = Stats(1, 0, 1, 0.0, 0.0, 0.0, 0.0, 1, 2)


def test_ids_that_a_server_does_not_give_are_left_out() -> None:
    other = Likely("no", -2.0, id=7)
    tokens = [token_of(Likely("yes", -0.5, top_logprobs=[Likely("yes", -0.5), other]))]
    made = PrintedAnswer(["yes"], tokens, Finished(1, "stop", STATS))
    (told,) = as_json(made, LOADED)["tokens"]
    assert "token" not in told
    assert (told["text"], told["logprob"]) == ("yes", -0.5)
    assert [one.get("token") for one in told["top"]] == [None, 7]
    assert token_of(Likely("yes")).token == tokens[0].token  # the same for the same text
    assert list(logprob_table(tokens))[1].split()[:2] == ["–", "-0.500"]
