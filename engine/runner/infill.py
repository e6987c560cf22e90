"""From a place in a text to the tokens that have a model fill it in, in llama-server's layout."""

from typing import TypeVar

from engine.errors import CannotFill
from engine.protocol import Infill
from engine.runner.aside import MOST_A_TOKEN, check_length
from engine.tokenizer import Tokenizer

S = TypeVar("S", str, list[int])

USUAL_ANSWER = 256
"""Tokens that are left for an answer of no given length."""
BETWEEN = "\n\n--- snippet ---\n\n"
_STEPS = 8
_MARKS = 4  # BOS and the three of the place


def infill_tokens(
    tokenizer: Tokenizer, infill: Infill, n_ctx: int, most: int | None = None
) -> list[int]:
    """Return the tokens behind which a model writes the text between prefix and suffix, `most`
    tokens of it. Raises `CannotFill`, `BadSetting` for a text that no context would hold.

    BOS comes first (llama-server puts snippets before it), and no space in front of a suffix: so
    models were trained.
    """
    fim = tokenizer.fim
    if fim.missing:
        raise CannotFill(fim.missing)
    named = {"prefix": infill.prefix, "suffix": infill.suffix, "prompt": infill.line}
    named |= {f"input_extra[{i}].text": one.text for i, one in enumerate(infill.snippets)}
    for name, text in named.items():
        check_length(name, text, n_ctx)
    answer = min(USUAL_ANSWER if most is None else most, n_ctx // 4)
    before: list[int] = []
    quarter = None
    if infill.window is not None:
        window = max(4, min(infill.window, n_ctx - answer - _MARKS))
        quarter = window // 4
        most_before = max(0, n_ctx - window - 2 * answer)
        if most_before:
            before = last_part(_files(tokenizer, infill), most_before)
    place = _place(tokenizer, infill, quarter)
    begins = [tokenizer.bos] if tokenizer.add_bos and tokenizer.bos is not None else []
    return [*begins, *before, *place]


def _place(tokenizer: Tokenizer, infill: Infill, quarter: int | None) -> list[int]:
    """The text around the place, cut to four times `quarter` tokens."""
    fim = tokenizer.fim
    assert fim.prefix is not None
    assert fim.suffix is not None
    prefix, line, suffix = infill.prefix, infill.line, infill.suffix
    if quarter is not None:  # no more than is needed is tokenised
        prefix = last_part(prefix, 3 * quarter * MOST_A_TOKEN)
        suffix = suffix[: quarter * MOST_A_TOKEN]
    first = _plain(tokenizer, prefix)
    typed = _plain(tokenizer, line, continues=bool(first))
    second = _plain(tokenizer, suffix, continues=True)
    if quarter is not None:
        typed = last_part(typed, max(1, quarter - 2))
        first, second = last_part(first, 3 * quarter), second[: max(0, quarter - 2 - len(typed))]
    front, behind = [fim.prefix, *first, *typed], [fim.suffix, *second]
    parts = [behind, front] if fim.pair or infill.suffix_first else [front, behind]
    return [*parts[0], *parts[1], *([] if fim.middle is None or fim.pair else [fim.middle])]


def _files(tokenizer: Tokenizer, infill: Infill) -> list[int]:
    """The repository, its other files, and the mark of the one that is written in."""
    fim = tokenizer.fim
    found: list[int] = []
    if fim.repo is not None:
        found += [fim.repo, *_plain(tokenizer, "myproject\n")]
    for one in infill.snippets:
        if fim.file is None:
            found += _plain(tokenizer, BETWEEN)
        else:
            found += [fim.file, *_plain(tokenizer, f"{one.name or 'tmp'}\n")]
        found += _plain(tokenizer, one.text)
    if fim.file is not None:
        found += [fim.file, *_plain(tokenizer, "filename\n")]
    return found


def _plain(tokenizer: Tokenizer, text: str, continues: bool = False) -> list[int]:
    """The tokens of a text that may name marks, and means none."""
    return tokenizer.encode(text, add_special=False, parse_special=False, continues=continues)


def last_part(whole: S, most: int) -> S:
    """The end of a text or of tokens, at most so many. Its beginning moves in steps of an eighth:
    while somebody writes at the end, what was read before mostly stays the beginning.
    """
    over = len(whole) - most
    step = max(1, most // _STEPS)
    return whole if over <= 0 else whole[-(-over // step) * step :]
