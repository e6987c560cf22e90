"""Answers about texts as tokens, and forms: they wait for no answer that is being written."""

from engine.errors import BadSetting
from engine.protocol import (
    CheckForm,
    DecodedText,
    DecodeTokens,
    EncodedText,
    EncodeText,
    FormChecked,
)
from engine.runner.aside import MOST_TEXT, check_length, resting
from engine.sampling.constraint import problem_of
from engine.worker.answers import answers
from engine.worker.service import Service


@answers(EncodeText)
def _encode(service: Service, request: EncodeText) -> EncodedText:
    model, _ = service.model
    check_length("content", request.text, model.built.n_ctx)
    tokenizer = model.tokenizer.pausing(resting(service.asked_to_stop(request)))
    ids = tokenizer.encode(request.text, add_special=request.special, parse_special=request.marks)
    return EncodedText(request.id, ids, [tokenizer.piece(token, special=True) for token in ids])


@answers(DecodeTokens)
def _decode(service: Service, request: DecodeTokens) -> DecodedText:
    tokenizer = service.model[0].tokenizer
    if len(request.tokens) > MOST_TEXT:
        raise BadSetting("tokens", f"{len(request.tokens):,} ids", f"at most {MOST_TEXT:,}")
    for token in request.tokens:
        if not 0 <= token < tokenizer.size:
            raise BadSetting("tokens", token, f"ids from 0 to {tokenizer.size - 1}")
    return DecodedText(request.id, tokenizer.decode(request.tokens, special=True))


@answers(CheckForm)
def _check(service: Service, request: CheckForm) -> FormChecked:
    return FormChecked(request.id, problem_of(request.form))
