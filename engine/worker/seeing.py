"""Answers to requests about pictures."""

from engine.errors import BadSetting, CannotSee
from engine.images.plan import ImagePlan, Limits, Rows, Size, Text, View
from engine.images.resize import Resizer
from engine.protocol import (
    LearnedPiece,
    PictureInfo,
    PictureLimits,
    PicturePlan,
    PicturePlans,
    PictureSeen,
    PictureView,
    PlanPictures,
    PutPicture,
    RowsPiece,
    SeenView,
    ShowPicture,
    TextPiece,
)
from engine.runner.loading import LoadedModel
from engine.runner.pictures.compose import n_tokens
from engine.runner.pictures.viewer import Viewer
from engine.worker.service import Service, answers


@answers(PutPicture)
def _put_picture(service: Service, request: PutPicture) -> PictureInfo:
    picture = service.album.put(request.data)
    service.album.forget_pixels()
    plan = None
    if service.is_open and service.model[0].viewer is not None:
        plan = _plan(service.model[0], picture.size, request.limits)
    return PictureInfo(request.id, picture.digest, *picture.size, list(picture.notes), plan)


@answers(PlanPictures)
def _plan_pictures(service: Service, request: PlanPictures) -> PicturePlans:
    model, _ = service.model
    limits = request.limits or [PictureLimits()] * len(request.sizes)
    if len(limits) != len(request.sizes):
        raise BadSetting("limits", len(limits), f"one for each of {len(request.sizes)} sizes")
    plans = [_plan(model, Size(*s), one) for s, one in zip(request.sizes, limits, strict=True)]
    return PicturePlans(request.id, plans)


@answers(ShowPicture)
def _show_picture(service: Service, request: ShowPicture) -> PictureSeen:
    model, _ = service.model
    viewer = _viewer(model)
    picture = service.album.picture(request.digest)
    plan = viewer.plan(picture.size, _limits(request.limits))
    resizer = Resizer(picture, viewer.tower.rule)
    views = [SeenView(*view.size, resizer.shown(view).tobytes()) for view in plan.views]
    service.album.forget_pixels()
    return PictureSeen(request.id, request.digest, _picture_plan(model, viewer, plan), views)


def _plan(model: LoadedModel, size: Size, limits: PictureLimits) -> PicturePlan:
    viewer = _viewer(model)
    return _picture_plan(model, viewer, viewer.plan(size, _limits(limits)))


def _viewer(model: LoadedModel) -> Viewer:
    if model.viewer is None:
        raise CannotSee
    return model.viewer


def _limits(limits: PictureLimits) -> Limits:
    return Limits(limits.rows, limits.one_view)


def _picture_plan(model: LoadedModel, viewer: Viewer, plan: ImagePlan) -> PicturePlan:
    """A plan as a message."""
    n_patches, speed = viewer.patches(plan), viewer.per_patch
    return PicturePlan(
        views=[_view(view) for view in plan.views],
        pieces=[
            TextPiece(piece.text)
            if isinstance(piece, Text)
            else RowsPiece(piece.view, piece.first, piece.count)
            if isinstance(piece, Rows)
            else LearnedPiece(piece.name)
            for piece in plan.pieces
        ],
        n_tokens=n_tokens(model.tokenizer, plan),
        n_rows=plan.rows,
        n_patches=n_patches,
        cross=plan.cross,
        seconds=None if speed is None else speed * n_patches,
        notes=list(plan.notes),
    )


def _view(view: View) -> PictureView:
    return PictureView(
        view.size.w,
        view.size.h,
        view.source[:4],
        view.content[:4],
        view.role,
        view.row,
        view.col,
        view.grid.w,
        view.grid.h,
        view.extras,
    )
