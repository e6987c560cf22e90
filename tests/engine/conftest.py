"""`worker`: the engine's process, without a model; one for all tests that ask for it."""

from collections.abc import Iterator

import pytest

from engine.worker import Worker
from tests.engine.kept import KeptWorker


@pytest.fixture(scope="session")
def kept_worker() -> Iterator[KeptWorker]:
    kept = KeptWorker()
    yield kept
    kept.close()


@pytest.fixture
def worker(kept_worker: KeptWorker) -> Iterator[Worker]:
    yield kept_worker.start()
    kept_worker.leave()
