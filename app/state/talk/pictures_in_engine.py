"""Which pictures the engine holds, and what becomes of each in the open model."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from PySide6.QtCore import QObject, Signal

from app.client import EngineClient
from app.state.session import Session
from app.state.talk.disk.picture_files import PictureFiles
from app.state.talk.message import Message, Picture
from app.work import Work
from engine.protocol import (
    Failed,
    PictureInfo,
    PictureLimits,
    PicturePlan,
    PicturePlans,
    PlanPictures,
    PutPicture,
)

UNLIMITED = PictureLimits()
ONE_VIEW = PictureLimits(one_view=True)
CHOICES = (UNLIMITED, *(PictureLimits(rows) for rows in (2048, 1024, 512, 256, 128, 64)), ONE_VIEW)
"""A model's requests."""


class PricedLimits(NamedTuple):
    """Limits of a picture, and what becomes of it within them."""

    limits: PictureLimits
    plan: PicturePlan


def choices(plans: Mapping[PictureLimits, PicturePlan]) -> list[PricedLimits]:
    """Return the CHOICES that make a difference, the largest first; the first has no limits.

    Models of one size for all pictures leave that one. One view goes before a number that comes to
    the same.
    """
    whole, alone = plans[UNLIMITED], plans[ONE_VIEW]
    found = {whole.n_rows: PricedLimits(UNLIMITED, whole)}
    for limits in CHOICES:
        plan = plans[limits]
        if limits.rows is not None and plan.n_rows <= limits.rows:
            found.setdefault(plan.n_rows, PricedLimits(limits, plan))
    if alone.n_rows < whole.n_rows:
        found[alone.n_rows] = PricedLimits(ONE_VIEW, alone)
    return [found[n] for n in sorted(found, reverse=True)]


Plans = dict[PictureLimits, PicturePlan | None]
"""A picture's plan within limits; None while it is on its way."""


class PicturesInEngine(QObject):
    """Pictures by the hashes of their files. They are read in a thread and decoded by the engine;
    its replies are requested again from a fresh engine, and the plans of another model.
    """

    changed = Signal()

    def __init__(
        self,
        client: EngineClient,
        session: Session,
        files: PictureFiles,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._client, self._session, self._files = client, session, files
        self._infos: dict[str, PictureInfo] = {}
        self._plans: dict[str, Plans] = {}  # None: on its way
        self._problems: dict[str, str] = {}
        self._under_way: set[str] = set()
        self._wanted: dict[str, Picture] = {}  # until a model is open
        self._life = 0  # of the engine; requests to one before do not count
        session.opened.connect(self._model_opened)
        client.died.connect(self._forget)
        client.restarted.connect(self._forget)

    @property
    def sees(self) -> bool | None:
        """True if the open model accepts pictures; None if no model is open."""
        model = self._session.model
        return None if model is None else model.vision is not None

    def path(self, picture: Picture) -> Path:
        """The file that is kept of it."""
        return self._files.path(picture.hash)

    def info(self, picture: Picture) -> PictureInfo | None:
        """Return the engine's description of a picture; None until it is uploaded."""
        return self._infos.get(picture.hash)

    def plan(self, picture: Picture) -> PicturePlan | None:
        """Return the plan of a picture in the open model; None until the engine has replied.
        Requests it if needed.
        """
        self._plan(picture.hash, [picture.limits])
        return self._plans.get(picture.hash, {}).get(picture.limits)

    def choices(self, picture: Picture) -> list[PricedLimits]:
        """Return the possible limits in the open model, the most expensive first; empty until the
        engine has replied. Requests them if needed.
        """
        self._plan(picture.hash, CHOICES)
        plans = self._plans.get(picture.hash, {})
        known = {limits: plan for limits, plan in plans.items() if plan is not None}
        return choices(known) if known.keys() >= set(CHOICES) else []

    def problem(self, picture: Picture) -> str:
        """Why the engine could not take it; empty where nothing is known of that."""
        return self._problems.get(picture.hash, "")

    def tokens(self, pictures: Sequence[Picture]) -> int | None:
        """Return the total number of context tokens of pictures; None if one is unknown."""
        plans = [self.plan(picture) for picture in pictures]
        known = [plan.n_tokens for plan in plans if plan is not None]
        return sum(known) if len(known) == len(plans) else None

    def digests(self, messages: Iterable[Message]) -> dict[str, str]:
        """Return the engine's digests of pictures that it holds, by hash."""
        hashes = {picture.hash for message in messages for picture in message.pictures}
        return {hash: self._infos[hash].digest for hash in hashes if hash in self._infos}

    def send(self, pictures: Iterable[Picture]) -> bool:
        """Have the engine hold these; whether it does already. `changed` follows."""
        missing = {p.hash: p for p in pictures if p.hash not in self._infos}
        for picture in missing.values():
            if self._session.model is None:
                self._wanted[picture.hash] = picture
            elif picture.hash not in self._under_way and picture.hash not in self._problems:
                self._read(picture)
        return not missing

    def try_again(self, pictures: Iterable[Picture]) -> None:
        """Forget what went wrong with these."""
        for picture in pictures:
            self._problems.pop(picture.hash, None)

    def lost(self, digests: Sequence[str]) -> None:
        """The engine says that it does not hold these any more."""
        gone = [hash for hash, info in self._infos.items() if info.digest in digests]
        for hash in gone:
            del self._infos[hash]

    def _plan(self, hash: str, wanted: Iterable[PictureLimits]) -> None:
        """Request a picture's plan within these limits, unless that is known or on its way."""
        if hash not in self._infos or not self.sees:
            return
        plans, info = self._plans.setdefault(hash, {}), self._infos[hash]
        missing = [limits for limits in wanted if limits not in plans]
        if not missing:
            return

        def take(reply: PicturePlans) -> None:
            plans.update(zip(missing, reply.plans, strict=True))
            self.changed.emit()

        def refused(failed: Failed) -> None:
            if failed.kind == "BadPicture" and self._plans.get(hash) is plans:
                self._problems[hash] = failed.message
                self.changed.emit()

        plans.update(dict.fromkeys(missing))
        sizes = [(info.width, info.height)] * len(missing)
        self._client.send(PlanPictures(0, sizes, missing), take, refused)

    def _read(self, picture: Picture) -> None:
        self._under_way.add(picture.hash)
        life = self._life

        def put(data: bytes) -> None:
            if life == self._life:
                self._client.send(PutPicture(0, data, picture.limits), then, fail)

        def then(info: PictureInfo) -> None:
            if life == self._life:
                self._end(picture, info)

        def fail(failed: Failed) -> None:
            if life == self._life:
                self._end(picture, failed.message)

        def unread(why: str) -> None:
            self._end(picture, why)

        Work(self._files.read, picture.hash, picture.name).then(put).fail(unread).start(self)

    def _end(self, picture: Picture, outcome: PictureInfo | str) -> None:
        self._under_way.discard(picture.hash)
        if isinstance(outcome, str):
            self._problems[picture.hash] = outcome
        else:
            self._infos[picture.hash] = outcome
            if outcome.plan is not None:
                self._plans.setdefault(picture.hash, {})[picture.limits] = outcome.plan
        self.changed.emit()

    def _model_opened(self) -> None:
        """Discard the plans and errors of the previous model."""
        wanted, self._wanted = self._wanted, {}
        self._plans = {}
        self._problems.clear()
        self.send(wanted.values())
        self.changed.emit()

    def _forget(self, *_: object) -> None:
        """The engine that held them is gone."""
        self._life += 1
        for known in (self._infos, self._plans, self._problems, self._under_way):
            known.clear()
        self.changed.emit()
