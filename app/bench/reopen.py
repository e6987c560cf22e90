"""Measures how soon a chat continues that an earlier engine has read: `cutaway bench --reopen`."""

from dataclasses import replace
from pathlib import Path
from random import Random
from statistics import median
from time import perf_counter

from app.bench.facts import model_facts
from app.terminal.text import print_json
from engine.errors import BadSetting, CutawayError
from engine.prefixes import forget_chat, kept_prefixes
from engine.protocol import Finished, ForgetChat, Generate, Load, Sampling, SavePrefixes, Stats
from engine.settings import EngineOptions
from engine.worker import Worker

CHAT = "cutaway bench --reopen"
LIMIT = 100
"""GB, so that nothing is deleted to make room."""
TRIES = 20
"""Moments to write what was read."""


def run_reopen(
    path: Path, options: EngineOptions, n_prompt: int, repetitions: int, as_json: bool
) -> None:
    """Print the time to the first token of a prompt that is read, and of one that is restored, in
    turn, each in a new process. Raises as `cutaway bench`.
    """
    options = replace(options, ctx=options.ctx or n_prompt + 16, kept_chats=LIMIT, cache_ram=0)
    read, restored, files = [], [], []
    for turn in range(repetitions):
        with Worker() as worker:
            loaded = worker.get(Load(worker.new_id(), str(path), options))
            if n_prompt > loaded.n_ctx - 2:  # one more token of it, and one behind
                raise BadSetting("-p", n_prompt, f"at most {loaded.n_ctx - 2} tokens: the context")
            prompt = Random(turn).choices(range(loaded.n_vocab), k=n_prompt)
            _first(worker, prompt[: n_prompt // 8], None)  # plans are made
            read.append(_first(worker, prompt, CHAT))
            before = {one.path for one in kept_prefixes()}
            problem = _written(worker)
        new = [one for one in kept_prefixes() if one.path not in before]
        if problem or not new:
            raise CutawayError(problem or f"{n_prompt} tokens are too few or too quick to be kept")
        with Worker() as worker:
            worker.get(Load(worker.new_id(), str(path), options))
            _first(worker, prompt[: n_prompt // 8], None)
            files.append(_seconds([one.path for one in new]))
            restored.append(_first(worker, [*prompt, prompt[0]], CHAT))
            worker.get(ForgetChat(worker.new_id(), CHAT))
        forget_chat(CHAT)
    found = {
        "n_prompt": n_prompt,
        "n_restored": min(one.n_cached for one in restored),
        "read_s": median(one.prefill_s for one in read),
        "restored_s": median(one.prefill_s for one in restored),
        "files_s": median(files),
        "ratio": median(b.prefill_s / a.prefill_s for a, b in zip(read, restored, strict=True)),
    }
    if as_json:
        print_json({"facts": model_facts(loaded), "reopen": found}, indent=2)
        return
    print(
        f"first token after {found['read_s']:.3f} s when {n_prompt} tokens are read,"
        f" {found['restored_s']:.3f} s when {found['n_restored']} of them are restored"
        f" ({found['ratio']:.1%}); reading the files alone takes {found['files_s']:.3f} s"
    )


def _first(worker: Worker, prompt: list[int], chat: str | None) -> Stats:
    """The statistics of one token behind a prompt."""
    request = Generate(
        worker.new_id(),
        prompt_tokens=prompt,
        sampling=Sampling(temperature=0),
        max_tokens=1,
        endless=True,
        chat=chat,
    )
    *_, last = worker.run(request)
    assert isinstance(last, Finished)
    return last.stats


def _written(worker: Worker) -> str:
    """Have all of it written; why it is not."""
    size, problem = -1, ""
    for _ in range(TRIES):
        problem = worker.get(SavePrefixes(worker.new_id())).problem
        now = sum(one.size for one in kept_prefixes())
        if problem or now == size:
            break
        size = now
    return problem


def _seconds(paths: list[Path]) -> float:
    """The time to read the files."""
    begun = perf_counter()
    for path in paths:
        path.read_bytes()
    return perf_counter() - begun
