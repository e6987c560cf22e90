"""Which path is answered by what."""

from app.serve.openai.chat import chat
from app.serve.openai.completions import completions
from app.serve.openai.embeddings import embeddings
from app.serve.openai.models import model, models
from app.serve.openai.responses.respond import responses
from app.serve.web.refusal import error
from app.serve.web.site import Dialect, with_and_without

OPENAI = Dialect(
    with_and_without(
        "/v1",
        {
            ("POST", "/v1/chat/completions"): chat,
            ("POST", "/v1/completions"): completions,
            ("POST", "/v1/embeddings"): embeddings,
            ("POST", "/v1/responses"): responses,
            ("GET", "/v1/models"): models,
            ("GET", "/v1/models/{name:path}"): model,
        },
    ),
    error,
)
