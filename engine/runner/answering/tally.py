"""Statistics of an answer: times, counts, and the use of its pictures."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter

from engine.protocol import Generate, PictureStats, Progress, Stats
from engine.runner.pictures.compose import n_tokens
from engine.runner.pictures.items import Item, Shown, extents, n_read, runs
from engine.runner.pictures.viewer import Encoding
from engine.runner.prompt import Prompt
from engine.tokenizer import Tokenizer


@dataclass
class Tally:
    """Moments in seconds, and counts."""

    started: float = field(default_factory=perf_counter)
    tokenized: float = 0.0
    prefilled: float = 0.0
    first: float = 0.0
    n_cached: int = 0
    n_generated: int = 0
    n_drafted: int = 0
    n_accepted: int = 0
    saved_s: float = 0.0
    n_shifts: int = 0
    n_forgotten: int = 0
    n_read_again: int = 0
    encode_s: dict[Shown, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def forgot(self, gone: Sequence[Item], n_read_again: int) -> None:
        """A shift of the context dropped these, and so many are read again for it."""
        self.n_shifts += 1
        self.n_forgotten += len(gone)
        self.n_read_again += n_read_again
        for extent in extents(gone):
            size = extent.picture.size
            self.notes.append(f"a picture of {size} no longer fits the context and was dropped")

    def encoded(self, id: int, encoding: Encoding, pictures: Sequence[Shown]) -> Progress:
        """A picture among these is encoded so far: counted in blocks, over all its views."""
        shown, views, blocks = encoding.picture, encoding.total, max(1, encoding.blocks)
        self.encode_s[shown] = self.encode_s.get(shown, 0.0) + encoding.seconds
        number = pictures.index(shown) + 1 if shown in pictures else 0
        block = encoding.block + 1 if encoding.done < views else blocks
        return Progress(
            id,
            "encode",
            encoding.done * blocks + encoding.block,
            views * blocks,
            picture=(number, len(pictures)),
            view=(min(encoding.done + 1, views), views),
            block=(min(block, blocks), blocks),
        )

    def stats(
        self,
        tokenizer: Tokenizer,
        prompt: Prompt,
        seed: int,
        n_context: int,
        request: Generate,
        is_recurrent: bool,
    ) -> Stats:
        """The counts and seconds so far."""
        now = perf_counter()
        prefilled = self.prefilled or now
        first = self.first or now
        encode_s = sum(self.encode_s.values())
        return Stats(
            n_prompt=sum(map(n_read, prompt.items)),
            n_cached=self.n_cached,
            n_generated=self.n_generated,
            tokenize_s=self.tokenized - self.started,
            prefill_s=max(0.0, prefilled - self.tokenized - encode_s),
            first_token_s=first - self.started,
            decode_s=now - first,
            seed=seed,
            n_context=n_context,
            n_shifts=self.n_shifts,
            n_truncated=prompt.n_truncated,
            encode_s=encode_s,
            n_image_rows=sum(run.end - run.begin for run in runs(prompt.items)),
            pictures=[self._picture(tokenizer, prompt, i) for i in range(len(prompt.pictures))],
            notes=[*prompt.notes, *self.notes, *(self._read_again() if is_recurrent else ())],
            changes=request.changes,
            edits=request.edits,
            n_forgotten=self.n_forgotten,
            n_drafted=self.n_drafted,
            n_accepted=self.n_accepted,
            saved_s=self.saved_s,
        )

    def _read_again(self) -> Iterator[str]:
        if self.n_read_again:
            yield (
                f"the context was full: {self.n_forgotten} tokens were forgotten and"
                f" {self.n_read_again} read again, as a recurrent state cannot forget some"
            )

    def _picture(self, tokenizer: Tokenizer, prompt: Prompt, i: int) -> PictureStats:
        """Return a picture's statistics; one that is shown twice took its time for the first."""
        picture = prompt.pictures[i]
        is_first = prompt.pictures.index(picture) == i
        return PictureStats(
            i + 1,
            picture.digest,
            *picture.size,
            n_tokens(tokenizer, picture.plan),
            picture.plan.rows,
            [(view.size.w, view.size.h) for view in picture.plan.views],
            self.encode_s.get(picture, 0.0) if is_first else 0.0,
        )
