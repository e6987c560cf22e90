"""Tokens in columns: what went in comes out, ends and positions agree."""

import struct

import pytest
from msgspec.structs import replace

from app.state.talk.tokens import TokenData, Tokens
from engine.protocol import Alternative, TokenInfo
from tests.bounds import times_as_long


def info(token: int, logprob: float | None = -0.5, k: int = 2) -> TokenInfo:
    top = [Alternative(token + n, f"t{token + n}", -0.5 - n) for n in range(k)]
    return TokenInfo(token, logprob, f"t{token}", top if logprob is not None else [])


def made(*texts: str, begin: int = 0) -> Tokens:
    tokens, end = Tokens(begin), begin
    for n, text in enumerate(texts):
        end += len(text)
        tokens.append([info(10 * n)], end)
    return tokens


def test_what_went_in_comes_out() -> None:
    tokens = Tokens()
    given = [info(5), info(7, k=1), info(9, None), info(11)]
    for n, one in enumerate(given):
        tokens.append([one], n + 1)
    back = Tokens.of(tokens.data())
    for kept in (tokens, back):
        assert [kept[n] for n in range(4)] == [
            given[0],
            given[1],
            TokenInfo(9, None, "t9", []),
            given[3],
        ]
        assert kept.ids == [5, 7, 9, 11]
        assert kept[-1] == given[3]
        assert kept.logprob(2) is None
    with pytest.raises(IndexError):
        tokens[4]


def test_tokens_before_the_first_with_alternatives() -> None:
    tokens = Tokens()
    tokens.append([TokenInfo(1)], 1)
    tokens.append([info(5)], 2)
    assert tokens[0].top == []
    assert tokens[1] == info(5)


def test_where_tokens_are_in_the_text() -> None:
    tokens = made("The", " cat", "", " sat")  # the third is part of a character
    assert [(tokens.start(n), tokens.end(n)) for n in range(4)] == [(0, 3), (3, 7), (7, 7), (7, 11)]
    assert [tokens.at(n) for n in (0, 2, 3, 6, 7, 10, 11, 99)] == [0, 0, 1, 1, 3, 3, None, None]


def test_a_beginning_without_tokens() -> None:
    tokens = made("ab", "c", begin=5)
    assert (tokens.start(0), tokens.end(0), tokens.at(4), tokens.at(5)) == (5, 7, None, 0)
    assert Tokens.of(tokens.data()).begin == 5
    assert tokens.first(1).begin == 5


def test_several_tokens_of_one_piece() -> None:
    tokens = made("abc")
    tokens.append([info(1), info(2)], 9)
    assert [(tokens.start(n), tokens.end(n)) for n in (1, 2)] == [(3, 3), (3, 9)]
    tokens.extend_last(12)
    assert tokens.end(2) == 12
    Tokens().extend_last(3)  # nothing to extend


def test_first_is_a_copy() -> None:
    tokens = made("a", "b", "c")
    start = tokens.first(2)
    start.append([info(99)], 9)
    assert (tokens.ids, start.ids) == ([0, 10, 20], [0, 10, 99])
    assert start[1] == tokens[1]


def test_drafts_are_kept_and_checked() -> None:
    tokens = Tokens()
    tokens.append([info(7), replace(info(8), source="ngram", drafted="x")], 4)
    assert (tokens[0].source, tokens[1].source, tokens[1].drafted) == ("", "ngram", "x")
    again = Tokens.of(tokens.data())
    assert again[1] == tokens[1]
    assert not again.first(1)[0].source
    data = replace(tokens.data(), drafts={2: ("ngram", "")})
    with pytest.raises(ValueError, match="belongs to no token"):
        Tokens.of(data).check(4)


def test_kept_data_is_little_endian_and_checked() -> None:
    data = made("ab", "c").data()
    assert data.ids == struct.pack("<2i", 0, 10)
    assert data.ends == struct.pack("<2i", 2, 3)
    assert data.top_logprobs == struct.pack("<4f", -0.5, -1.5, -0.5, -1.5)
    for field in ("ends", "logprobs", "top_ids"):
        values = {name: getattr(data, name) for name in data.__struct_fields__}
        with pytest.raises(ValueError, match="length"):
            Tokens.of(type(data)(**values | {field: values[field][4:]}))


def test_twenty_thousand_tokens_are_small_and_cost_no_more_each() -> None:
    ten = [info(n % 300, k=10) for n in range(300)]

    def kept(count: int) -> TokenData:
        tokens = Tokens()
        for n in range(count):
            tokens.append([ten[n % 300]], n + 1)
        data = tokens.data()
        Tokens.of(data)
        return data

    data = kept(20_000)
    columns = (data.ids, data.ends, data.logprobs, data.top_ids, data.top_logprobs)
    assert sum(map(len, columns)) == 20_000 * (3 * 4 + 20 * 4)
    assert times_as_long(lambda: kept(20_000), lambda: kept(2_500)) < 8 * 3
