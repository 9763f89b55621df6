"""Replays a workload against a server with an OpenAI-compatible API."""

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from warmset.addresses import without_credentials
from warmset.errors import InputError
from warmset.lab.reach import FAILURES, reason
from warmset.lab.workload import Output, Request, Workload, each, resolve, symbolic

Progress = Callable[[int, int], None]
# vLLM ends a request's transfers in the step after its last one, an empty one. What came before that step
# would find another tier, so a replay of one at a time leaves room for it.
_STEP_SECONDS = 0.005


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back for one request.

    Attributes:
        prompt: the token ids that were sent.
        output: the token ids that were generated; empty when the server does not return them.
        cached_tokens: prompt tokens that the server did not compute; None when it does not say.
        start_seconds: when it was sent, since the first one.
        latency_seconds: from sending to the whole answer.
    """

    prompt: list[int]
    output: list[int]
    cached_tokens: int | None
    start_seconds: float
    latency_seconds: float


def replay(
    workload: Workload,
    url: str,
    model: str,
    *,
    concurrency: int = 1,
    headers: Mapping[str, str] | None = None,
    progress: Progress | None = None,
    timeout_seconds: float = 600.0,
) -> list[Answer]:
    """Send every request, in order, at most `concurrency` at a time, and return the answers in order.

    A request waits for the answer to the one before it in its session. Raises InputError when the server
    refuses a request or goes away.
    """
    return asyncio.run(
        _replay(workload, url, model, concurrency, dict(headers or {}), progress, timeout_seconds)
    )


async def _replay(
    workload: Workload,
    url: str,
    model: str,
    concurrency: int,
    headers: dict[str, str],
    progress: Progress | None,
    timeout_seconds: float,
) -> list[Answer]:
    answers: dict[int, Answer] = {}
    outputs: dict[int, list[int]] = {}
    tasks: dict[int, asyncio.Task[Answer]] = {}
    began = time.perf_counter()
    total = len(workload)

    async def collect() -> None:
        done, _ = await asyncio.wait(tasks.values(), return_when=asyncio.FIRST_COMPLETED)
        for number in [number for number, task in tasks.items() if task in done]:
            answer = tasks.pop(number).result()
            answers[number], outputs[number] = answer, answer.output
            if progress is not None:
                progress(len(answers), total)

    async with httpx.AsyncClient(
        base_url=url, headers=headers, timeout=timeout_seconds, trust_env=False
    ) as client:
        try:
            for number, request in enumerate(each(workload)):
                while len(tasks) >= concurrency or _must_wait(request, tasks, workload):
                    await collect()
                    if concurrency == 1:
                        await asyncio.sleep(_STEP_SECONDS)
                prompt = _prompt(workload, number, request, outputs)
                tasks[number] = asyncio.create_task(
                    _send(client, model, number, prompt, request.output_tokens, began)
                )
            while tasks:
                await collect()
        finally:
            for task in tasks.values():
                task.cancel()
            # Their errors are those of the request that failed first.
            await asyncio.gather(*tasks.values(), return_exceptions=True)
    return [answers[number] for number in range(total)]


def _must_wait(request: Request, tasks: Mapping[int, object], workload: Workload) -> bool:
    needed = {piece.request for piece in request.pieces if isinstance(piece, Output)}
    return any(
        number in needed or (request.session is not None and workload[number].session == request.session)
        for number in tasks
    )


def _prompt(workload: Workload, number: int, request: Request, outputs: dict[int, list[int]]) -> list[int]:
    try:
        return resolve(symbolic(request, workload.seed), outputs)
    except (KeyError, IndexError):
        raise InputError(
            f"request {number} continues an answer whose tokens the server did not return",
            hint="use a server that knows `return_token_ids` (vLLM 0.10.2 or newer), or replay a trace",
        ) from None


async def _send(
    client: httpx.AsyncClient, model: str, number: int, prompt: list[int], output_tokens: int, began: float
) -> Answer:
    body = {
        "model": model,
        "prompt": prompt,
        "max_tokens": output_tokens,
        "temperature": 0,
        "ignore_eos": True,
        "return_token_ids": True,
    }
    sent = time.perf_counter()
    try:
        response = await client.post("/v1/completions", json=body)
    except FAILURES as error:
        raise InputError(
            f"the server at `{without_credentials(str(client.base_url))}` went away at request {number}: "
            f"{reason(error)}",
            hint="see the server's log",
        ) from None
    took = time.perf_counter() - sent
    if response.status_code != 200:
        raise InputError(
            f"the server refused request {number} with status {response.status_code}: {_reason(response)}",
            hint="see the server's log; a longer `--max-model-len` or other lab sizes may help",
        )
    try:
        answer: dict[str, Any] = response.json()
        output = [int(token) for token in answer["choices"][0].get("token_ids") or ()]
        details = (answer.get("usage") or {}).get("prompt_tokens_details") or {}
        cached = details.get("cached_tokens")
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        raise InputError(
            f"the server's answer to request {number} is no completion: {response.text[:100]}",
            hint="use an OpenAI-compatible server that takes `/v1/completions`",
        ) from None
    return Answer(prompt, output, cached if isinstance(cached, int) else None, sent - began, took)


def _reason(response: httpx.Response) -> str:
    try:
        body = response.json()
        return str(body.get("error", {}).get("message") or body.get("message") or body)[:300]
    except (json.JSONDecodeError, AttributeError):
        return response.text[:300]
