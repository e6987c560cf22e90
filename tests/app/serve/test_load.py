"""Many clients at once, some of whom leave: none is lost, none answered twice, the counts add up.

The short version runs with the rest; `-m full` has 200 clients and 2,000 requests, and looks at the
memory of the server's process.
"""

import asyncio
import random
import re
import subprocess
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import psutil
import pytest

from app.engine import Event
from engine.protocol import Finished
from engine.units import MIB
from tests.app.serve.running import HTTP, Served, served
from tests.program import ROOT, RUN

PATHS = ("/v1/chat/completions", "/v1/completions", "/v1/messages", "/api/chat", "/completion")
MOST_GROWTH = 50 * MIB


@dataclass
class Outcome:
    """What became of all requests."""

    ended: Counter[str] = field(default_factory=Counter)
    prompt: int = 0  # tokens, of those that were answered
    made: int = 0
    ids: set[str] = field(default_factory=set)


def body_of(path: str, number: int, stream: bool) -> dict[str, Any]:
    words = f"request {number} " * (1 + number % 5)
    size = 2 + number % 7
    if path in ("/v1/completions", "/completion"):
        more = {"stream_options": {"include_usage": True}} if path == "/v1/completions" else {}
        return {"prompt": words, "max_tokens": size, "stream": stream, "seed": number} | more
    chat: dict[str, Any] = {"model": "tiny", "messages": [{"role": "user", "content": words}]}
    if path == "/api/chat":
        return chat | {"stream": stream, "options": {"num_predict": size}}
    if path == "/v1/chat/completions":
        chat["stream_options"] = {"include_usage": True}
    return chat | {"max_tokens": size, "stream": stream}


async def one(client: httpx2.AsyncClient, number: int, outcome: Outcome, leave: bool) -> None:
    """One request; where some `leave`, a tenth does in the middle or before anything came."""
    path, stream = PATHS[number % len(PATHS)], number % 3 > 0
    leaves = leave and number % 10 == 3
    body = body_of(path, number, stream)
    if leaves:
        asking = asyncio.create_task(client.post(path, json=body))
        await asyncio.sleep(random.Random(number).uniform(0, 0.2))
        if asking.done():
            check(asking.result(), path, stream, outcome)
            outcome.ended["in time"] += 1
        else:
            asking.cancel()
            outcome.ended["left"] += 1
        return
    check(await client.post(path, json=body), path, stream, outcome)
    outcome.ended["answered"] += 1


def check(answer: httpx2.Response, path: str, stream: bool, outcome: Outcome) -> None:
    """It is whole, and ends once."""
    text = answer.text
    told_of = (prompt_tokens(text), most(MADE, text))
    outcome.prompt, outcome.made = outcome.prompt + told_of[0], outcome.made + told_of[1]
    assert answer.status_code == 200, text
    assert '"error"' not in text
    if not stream:
        told = answer.json()
        found = told.get("id")
    elif path == "/v1/messages":
        assert text.count("event: message_stop") == text.count("event: message_start") == 1
        found = re.search(r'"id":"(msg_\w+)"', text)[1]  # type: ignore[index]
    elif path == "/api/chat":
        lines = [msgspec.json.decode(line) for line in text.splitlines()]
        assert [line["done"] for line in lines].count(True) == 1
        assert lines[-1]["done"]
        found = None
    elif path == "/completion":
        assert text.count('"stop":true') == 1
        found = None
    else:
        assert text.count("data: [DONE]\n\n") == 1
        assert text.endswith("data: [DONE]\n\n")
        ids = set(re.findall(r'"id":"((?:chat)?cmpl-\w+)"', text))
        assert len(ids) == 1
        (found,) = ids
    if found is not None:
        assert found not in outcome.ids
        outcome.ids.add(found)


PROMPT = ("prompt_tokens", "prompt_eval_count", "tokens_evaluated", "input_tokens")
MADE = ("completion_tokens", "eval_count", "tokens_predicted", "output_tokens")


def most(names: tuple[str, ...], text: str) -> int:
    """The largest count that an answer, or a frame of it, tells under one of these names."""
    return max(int(n) for n in re.findall(rf'"(?:{"|".join(names)})":(\d+)', text))


def prompt_tokens(text: str) -> int:
    """A prompt's tokens; Anthropic's form leaves those out that were cached."""
    cached = re.findall(r'"cache_read_input_tokens":(\d+)', text)
    if not cached:
        return most(PROMPT, text)
    return int(re.findall(r'"input_tokens":(\d+)', text)[-1]) + int(cached[-1])


async def load(url: str, clients: int, requests: int, leave: bool = True) -> Outcome:
    """All requests, by so many clients at once."""
    outcome, numbers = Outcome(), iter(range(requests))
    limits = httpx2.Limits(max_connections=clients, max_keepalive_connections=clients)

    async def person() -> None:
        for number in numbers:
            await one(client, number, outcome, leave)

    async with httpx2.AsyncClient(base_url=url, timeout=300, limits=limits, verify=False) as client:
        await asyncio.gather(*(person() for _ in range(clients)))
    return outcome


def counts(url: str) -> dict[str, float]:
    text = HTTP.get(f"{url}/metrics").text
    return {
        name: float(value)
        for line in text.splitlines()
        if not line.startswith("#")
        for name, _, value in [line.rpartition(" ")]
    }


async def settled(url: str) -> dict[str, float]:
    """The counts once nothing is under way."""
    while True:
        found = counts(url)
        if found["cutaway:requests_processing"] == found["cutaway:requests_deferred"] == 0:
            return found
        await asyncio.sleep(0.05)


def adds_up(found: dict[str, float], before: dict[str, float], outcome: Outcome, n: int) -> None:
    """Every request was counted once; those who left as gone, or as ended just before."""
    reasons = {
        name: value - before.get(name, 0)
        for name, value in found.items()
        if name.startswith("cutaway:requests_total")
    }
    # Who leaves before the server has read the request never was one.
    gone = reasons.get('cutaway:requests_total{reason="gone"}', 0)
    ended = sum(reasons.values()) - gone
    answered = outcome.ended["answered"] + outcome.ended["in time"]
    assert answered <= ended <= n
    assert answered + outcome.ended["left"] == n
    assert ended + gone <= n
    whole = "cutaway:e2e_request_latency_seconds_count"
    assert found[whole] - before[whole] == ended
    assert reasons.get('cutaway:requests_total{reason="error"}', 0) == 0


def tokens_add_up(found: dict[str, float], before: dict[str, float], outcome: Outcome) -> None:
    """Where nobody left, what all were told is what the server counted."""
    grown = {name: value - before[name] for name, value in found.items() if name in before}
    prompt = grown["cutaway:prompt_tokens_total"] + grown["cutaway:prompt_tokens_cached_total"]
    assert (prompt, grown["cutaway:tokens_predicted_total"]) == (outcome.prompt, outcome.made)
    assert grown["llamacpp:tokens_predicted_total"] == outcome.made


def test_a_few(tiny_path: Path) -> None:
    with served(tiny_path, queue=200) as running:
        told = ends_of(running)
        before = counts(running.url)
        outcome = asyncio.run(load(running.url, 20, 60))
        asyncio.run(quiet(running))
        found = counts(running.url)
        adds_up(found, before, outcome, 60)
        # Also what was made for those who left: as the engine told it.
        made = found["cutaway:tokens_predicted_total"] - before["cutaway:tokens_predicted_total"]
        assert made == sum(end.stats.n_generated for end in told) >= outcome.made
        outcome = asyncio.run(load(running.url, 20, 20, leave=False))
        asyncio.run(quiet(running))
        tokens_add_up(counts(running.url), found, outcome)


def ends_of(running: Served) -> list[Finished]:
    """The ends of answers, as the engine tells them from now on."""
    told: list[Finished] = []
    tell = running.engine.notify

    def heard(event: Event) -> None:
        if isinstance(event, Finished):
            told.append(event)
        tell(event)

    running.engine.notify = heard  # type: ignore[method-assign]
    return told


async def quiet(running: Served) -> None:
    """Until nothing is under way, and nothing is kept of what was."""
    serving = running.serving._running
    turns, gate = serving.turns, serving.gate
    async with asyncio.timeout(60):
        while (
            turns.busy
            or turns.waiting
            or gate._inboxes
            or running.serving.clients.now
            or running.engine.requests
        ):
            await asyncio.sleep(0.02)


@pytest.mark.full
def test_two_thousand(tiny_path: Path) -> None:
    words = ("serve", str(tiny_path), "--device", "host", "--ctx", "256", "--port", "0")
    more = ("--alias", "tiny", "--queue", "256", "--metrics")
    with subprocess.Popen(
        [*RUN, *words, *more],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as program:
        try:
            assert program.stdout is not None
            url = program.stdout.readline().strip()
            asyncio.run(load(url, 200, 300))  # what a first crowd makes it allocate
            server = psutil.Process(program.pid)
            both = [server, *server.children()]
            before, memory = asyncio.run(settled(url)), [p.memory_info().rss for p in both]
            outcome = asyncio.run(load(url, 200, 2000))
            found = asyncio.run(settled(url))
            grown = [p.memory_info().rss - m for p, m in zip(both, memory, strict=True)]
            print(f"ended {dict(outcome.ended)}, grown by {[g / MIB for g in grown]} MiB")
            adds_up(found, before, outcome, 2000)
            outcome_of_all = asyncio.run(load(url, 200, 500, leave=False))
            tokens_add_up(asyncio.run(settled(url)), found, outcome_of_all)
            assert outcome.ended["answered"] == 1800
            assert max(grown) < MOST_GROWTH
        finally:
            program.terminate()
            program.wait(60)
