"""Handlers of requests about models; for those about pictures see `seeing`."""

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from operator import sub

import msgspec
import numpy as np

from engine.backends.opencl.drivers.device import list_devices
from engine.errors import BadSetting, Cancelled, CannotSee, NoMem, SequenceBusy
from engine.gguf import GGUFFile
from engine.inside.graph import describe_graph
from engine.inside.score import score_answer
from engine.inside.token.context import context_of
from engine.inside.token.examine import edits_of, examine
from engine.memory.pools import limits_kept
from engine.memory.records import BackendMemory
from engine.prefixes import forget_chat
from engine.progress import Clock
from engine.protocol import (
    AdapterTable,
    AnswerScored,
    Bench,
    BenchDone,
    BenchParallel,
    ChatForgotten,
    CheckForm,
    DecodedText,
    DecodeTokens,
    DescribeGraph,
    DescribePlan,
    DeviceRoof,
    Devices,
    Embed,
    Embedded,
    EncodedText,
    EncodeText,
    Examine,
    Examined,
    ForgetChat,
    FormChecked,
    GraphDone,
    ListAdapters,
    ListDevices,
    ListSlots,
    Load,
    LoadCost,
    Loaded,
    MeasureRoofs,
    ParallelTimed,
    Perplexity,
    PerplexityDone,
    PicturePart,
    Planned,
    PlannedMemory,
    Predict,
    PredictedMemory,
    PrefixesSaved,
    Prepare,
    Prepared,
    Profile,
    ProfileDone,
    Progress,
    Rank,
    Ranked,
    Render,
    Rendered,
    RoofsMeasured,
    SavePrefixes,
    ScaleAdapters,
    ScoreAnswer,
    SlotTable,
    Speed,
    Unload,
    Unloaded,
)
from engine.runner.answering.bench import bench_together
from engine.runner.aside import MOST_TEXT, check_length, resting
from engine.runner.batch import MAX_BATCH
from engine.runner.bench import bench, bench_picture
from engine.runner.devices import open_devices
from engine.runner.embed import TextEmbedding, embed_in_parts
from engine.runner.loading import cache_format, load_model, name_of
from engine.runner.perplexity import score_in_parts
from engine.runner.pictures.beside import open_model
from engine.runner.pictures.compose import placed_rows, shown
from engine.runner.placing.describe import describe_plan
from engine.runner.placing.dry_run import DryRun
from engine.runner.placing.graphs import ModelGraphs
from engine.runner.placing.placement import DecidedPlacement, place
from engine.runner.placing.speed import Timings
from engine.runner.placing.tiles import Parts
from engine.runner.profile import profile, roof_of
from engine.runner.prompt import encoded, prompt_text
from engine.runner.rank import TextRank, rank_in_parts
from engine.runner.records import foreseen, held
from engine.sampling.constraint import problem_of
from engine.system import Usage, usage
from engine.worker import (  # noqa: F401  their handlers
    laboratory,
    moving,
    probing,
    seeing,
)
from engine.worker.answering import AnswersAtOnce
from engine.worker.service import HANDLERS, InParts, Service, answers

AT_ONCE = 0.1
"""Seconds of writing between two looks whether it is to stop."""

__all__ = ["HANDLERS", "answers"]


@answers(Load)
def _load(service: Service, request: Load) -> Loaded:
    progress = service.progress(request)
    placing: DryRun | None = None

    def placed(dry: DryRun) -> None:
        nonlocal placing
        placing = dry
        service.send(foreseen(PlannedMemory, 0, dry, dry.refused()))

    def allocated(dry: DryRun) -> None:
        service.send(held(dry))

    stop, clock, before = service.stop_of(request), Clock(), usage()
    try:
        with closing(service.shelve_model()) as shelf, limits_kept(), clock.running():
            callbacks = (progress, stop, placed, allocated)
            model = load_model(
                request.path, request.options, *callbacks, embeds=request.embeds, shelf=shelf
            )
    except NoMem as refused:
        if isinstance(refused.memory, BackendMemory) and placing is not None:
            service.send(held(placing, refused.memory))
        raise
    after = usage()
    service.take(model)
    service.send(held(model.dry))
    used = Usage(*map(sub, after, before)) if after is not None and before is not None else None
    return msgspec.structs.replace(model.describe(request), cost=LoadCost(clock.seconds, used))


@answers(ListAdapters)
def _adapters(service: Service, request: ListAdapters) -> AdapterTable:
    return AdapterTable(request.id, service.answering.model.adapters)


@answers(ScaleAdapters)
def _scale_adapters(service: Service, request: ScaleAdapters) -> AdapterTable:
    model, sequences = service.answering.model, service.answering.slots.sequences
    if tuple(request.scales) != model.stepper.scales:
        for sequence in sequences:
            model.prefixes.remember(sequence)
        model.scale_adapters(request.scales)
        for sequence in sequences:
            sequence.clear()
    return AdapterTable(request.id, model.adapters)


@answers(Prepare)
def _prepare(service: Service, request: Prepare) -> Prepared:
    keeping, stop = service.keeping, service.stop_of(request)
    if keeping is None:
        raise BadSetting("model", None, "a loaded model; open one first")
    while not keeping.has_ended(AT_ONCE):
        if stop():
            raise Cancelled("writing prepared weights")
    return Prepared(request.id, keeping.problem, keeping.damage)


@answers(SavePrefixes)
def _save_prefixes(service: Service, request: SavePrefixes) -> PrefixesSaved:
    if service.saving is None:
        raise BadSetting("model", None, "a loaded model; open one first")
    service.saving.finish()
    return PrefixesSaved(request.id, service.saving.problem)


@answers(ForgetChat)
def _forget(service: Service, request: ForgetChat) -> ChatForgotten:
    if service.saving is not None:
        service.saving.forget(request.chat)
    else:
        forget_chat(request.chat)
    return ChatForgotten(request.id)


@answers(Unload)
def _unload(service: Service, request: Unload) -> Unloaded:
    service.close_model()
    return Unloaded(request.id)


@answers(Predict)
def _predict(service: Service, request: Predict) -> PredictedMemory:
    with _placed(request) as (_, placed):
        foreseen_memory = foreseen(PredictedMemory, request.id, placed.dry, placed.failure)
        speed = _speed(request, placed.dry) if foreseen_memory.fits else None
        return msgspec.structs.replace(
            foreseen_memory, tokens_per_s=speed.tokens_per_s if speed is not None else None
        )


@answers(DescribePlan)
def _plan(service: Service, request: DescribePlan) -> Planned:
    with _placed(request) as (file, placed):
        speed = _speed(request, placed.dry)
        return describe_plan(request, placed, name_of(file), speed)


def _speed(request: Predict | DescribePlan, dry: DryRun) -> Speed | None:
    timings = Timings(dry.graphs, dry.backends, request.options)
    return timings.predict(dry, dry.one_token(), Parts(dry.built).of, 0)


@answers(DescribeGraph)
def _graph(service: Service, request: DescribeGraph) -> GraphDone:
    if not request.path:
        model, _ = service.model
        stepper, placement = model.stepper, model.dry.placement
        make, fused = stepper.planner.outline, stepper.fused_attention
        return describe_graph(request, model.built, placement, make, fused)
    with _placed(request) as (_, placed):
        dry = placed.dry
        return describe_graph(request, dry.built, dry.placement, dry.outline, dry.graphs.fused)


@contextmanager
def _placed(
    request: Predict | DescribePlan | DescribeGraph,
) -> Iterator[tuple[GGUFFile, DecidedPlacement]]:
    """A model and where it would go, open for as long as that is looked at."""
    options = request.options
    with ExitStack() as stack:
        opened = open_model(request.path, options, MAX_BATCH, cache_format(options), stack)
        graphs = ModelGraphs.of(opened.built, options)
        yield opened.file, place(graphs, open_devices(options, stack), options)


@answers(Render)
def _render(service: Service, request: Render) -> Rendered:
    model, _ = service.model
    text = prompt_text(model.template, request, model.viewer)
    check_length("messages", text, model.built.n_ctx)
    tokenizer = model.tokenizer.pausing(resting(service.stop_of(request)))
    items, pictures = encoded(tokenizer, model.template, request, model.viewer)
    rows = placed_rows(items, pictures)
    return Rendered(request.id, text, len(items), model.template.source, rows)


@answers(Perplexity)
def _perplexity(service: Service, request: Perplexity) -> InParts[PerplexityDone]:
    model, stop = service.answering.model, service.stop_of(request)
    arguments = (request.text, request.n_ctx, request.top_k, stop)
    with service.answering.lend() as lent:
        service.answering.claim(lent, [0] * min(request.n_ctx, model.built.n_ctx))
        sequence = lent.sequence.number
        for scored in score_in_parts(
            model.stepper, model.tokenizer, *arguments, sequence, request.edits
        ):
            if scored is not None:
                done, total, result = scored
                service.send(Progress(request.id, "score", done, total, result.perplexity))
            yield
    kept = request.top_k > 0
    return PerplexityDone(
        request.id,
        result.perplexity,
        result.error,
        total,
        request.n_ctx,
        request.top_k,
        result.tokens.astype("<i4").tobytes(),
        np.stack(result.ids).astype("<i4").tobytes() if kept else b"",
        np.stack(result.logp).astype("<f4").tobytes() if kept else b"",
    )


@answers(Bench)
def _bench(service: Service, request: Bench) -> BenchDone:
    model, sequence = service.model
    total, samples = request.repetitions, []
    stop = service.stop_of(request)
    timed = bench(model, sequence, request.test, total, request.warm_up, stop)
    if request.digest:
        if model.viewer is None:
            raise CannotSee
        picture = shown(model.tokenizer, model.viewer, PicturePart(request.digest))
        timed = bench_picture(model.viewer, picture, total, request.warm_up, stop)
    for ns in timed:
        samples.append(ns)
        service.send(Progress(request.id, "bench", len(samples), total))
    return BenchDone(request.id, samples)


@answers(BenchParallel)
def _bench_parallel(service: Service, request: BenchParallel) -> ParallelTimed:
    model, _ = service.model
    for sequence in service.answering.slots.sequences:
        sequence.clear()
    stop = service.stop_of(request)
    try:
        timed = bench_together(model, request.test, request.warm_up, stop)
    finally:
        model.built.caches.clear()
    return ParallelTimed(request.id, *timed)


@answers(Profile)
def _profile(service: Service, request: Profile) -> ProfileDone:
    model, sequence = service.model
    total, profiles = len(request.depths), []
    stop = service.stop_of(request)
    for one in profile(model, sequence, request.n_tokens, request.depths, request.steps, stop):
        profiles.append(one)
        service.send(Progress(request.id, "bench", len(profiles), total))
    return ProfileDone(request.id, profiles, *roof_of(model.device))


@answers(MeasureRoofs)
def _roofs(service: Service, request: MeasureRoofs) -> RoofsMeasured:
    model, _ = service.model
    stop = service.stop_of(request)
    devices = [backend for backend in model.dry.backends if backend.name != "host"]
    roofs = []
    for device in devices:
        if stop():
            raise Cancelled("measuring the devices")
        roofs.append(DeviceRoof(device.name, *roof_of(device)))
        service.send(Progress(request.id, "bench", len(roofs), len(devices)))
    return RoofsMeasured(request.id, roofs)


@answers(ListDevices)
def _list_devices(service: Service, request: ListDevices) -> Devices:
    return Devices(request.id, [device.row() for device in list_devices()])


@answers(ListSlots)
def _list_slots(service: Service, request: ListSlots) -> SlotTable:
    return service.answering.table(request.id)


@answers(Examine)
def _examine(service: Service, request: Examine) -> Examined:
    model, latest = service.model
    slots = service.answering.slots
    prompt = context_of(model, latest, request)
    edits = edits_of(model, request, prompt)
    items = prompt.items
    conversation = slots.nearest(items, edits)
    needed = len(items) - conversation.shared(items, edits)
    while model.built.caches.n_free < needed and slots.evict([conversation]):
        pass
    try:  # what it probes stays until an answer ends: one word is looked at after another
        for reply in examine(model, conversation, request, service.stop_of(request)):
            if isinstance(reply, Examined):
                examined = reply
            else:
                service.send(reply)
    finally:
        model.forget_rows()
    return examined


@answers(ScoreAnswer)
def _score(service: Service, request: ScoreAnswer) -> InParts[AnswerScored]:
    answering, stop = service.answering, service.stop_of(request)
    with answering.lend() as lent:
        claim = partial(answering.claim, lent, shares=True)
        steps = score_answer(answering.model, lent.sequence, request, stop, claim)
        while True:
            try:
                done = next(steps)
            except StopIteration as end:
                return AnswerScored(request.id, end.value.astype("<f4").tobytes())
            service.send(Progress(request.id, "score", done, 0))
            yield


class _Claim:
    """The cells that texts take at most. Raises `SequenceBusy` where there are not so many."""

    def __init__(self, answering: AnswersAtOnce) -> None:
        self._answering, self.most = answering, 0

    def __call__(self, n: int) -> None:
        self.most = n
        if not self._answering.has_room(n):
            raise SequenceBusy


@answers(Embed)
def _embed(service: Service, request: Embed) -> InParts[Embedded]:
    answering, stop = service.answering, service.stop_of(request)
    found: list[TextEmbedding] = []
    claim = _Claim(answering)
    arguments = (request.texts, request.width, request.normalized, stop, claim)
    for part in embed_in_parts(answering.model, *arguments):
        found += part
        if part:
            service.send(Progress(request.id, "embed", len(found), len(request.texts)))
        yield
        answering.free(claim.most)
    vectors = np.stack([one.vector for one in found]).astype("<f4") if found else np.empty((0, 0))
    counts = [one.n_tokens for one in found]
    return Embedded(request.id, vectors.shape[1], vectors.tobytes(), counts)


@answers(Rank)
def _rank(service: Service, request: Rank) -> InParts[Ranked]:
    answering, stop = service.answering, service.stop_of(request)
    found: list[TextRank] = []
    claim = _Claim(answering)
    for part in rank_in_parts(answering.model, request.query, request.texts, stop, claim):
        found += part
        if part:
            service.send(Progress(request.id, "rank", len(found), len(request.texts)))
        yield
        answering.free(claim.most)
    return Ranked(request.id, [one.score for one in found], [one.n_tokens for one in found])


@answers(EncodeText)
def _encode(service: Service, request: EncodeText) -> EncodedText:
    model, _ = service.model
    check_length("content", request.text, model.built.n_ctx)
    tokenizer = model.tokenizer.pausing(resting(service.stop_of(request)))
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
