"""Predictions against vLLM's own scheduler and offloading manager: random traffic and sizes, no server, no model."""

import random
import time
from collections import Counter, deque

import pytest

from warmset.lab.backends import HostTier, transfer_config
from warmset.lab.builtin import Shape, builtin
from warmset.lab.model import ModelShape, write_model
from warmset.lab.predict import Tiers, predict
from warmset.lab.replay import _must_wait
from warmset.lab.workload import Listed, Output, Request, Text, each, resolve, symbolic

pytestmark = pytest.mark.e2e
HEADS, HEAD_DIM = 1, 8


class Oracle:
    """One vLLM scheduler whose model says random tokens, and whose worker copies nothing and is always done."""

    def __init__(self, model, tiers, longest_tokens, backend="native", disk=None):
        import warmset.vllm.startup  # noqa: F401

        import torch  # isort: skip
        from vllm.config import KVTransferConfig
        from vllm.engine.arg_utils import EngineArgs
        from vllm.utils.hashing import sha256_cbor
        from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
        from vllm.v1.core.sched.scheduler import Scheduler
        from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
        from vllm.v1.structured_output import StructuredOutputManager

        size, transfer = tiers.block_tokens, None
        if tiers.host_chunks:
            tier = HostTier(
                tiers.host_chunks * tiers.blocks_per_chunk,
                2 * HEADS * HEAD_DIM * 4 * size,
                tiers.blocks_per_chunk,
                size,
            )
            transfer = dict(transfer_config(backend, tier, disk=disk))
            transfer["kv_connector_extra_config"]["offload_prompt_only"] = tiers.prompt_only
        config = EngineArgs(
            model=str(model),
            dtype="float32",
            block_size=size,
            num_gpu_blocks_override=tiers.device_blocks,
            max_model_len=longest_tokens,
            max_num_batched_tokens=max(longest_tokens, 2048),
            max_num_seqs=tiers.concurrency,
            enforce_eager=True,
            async_scheduling=False,
            kv_transfer_config=None if transfer is None else KVTransferConfig(**transfer),
        ).create_engine_config()
        config.cache_config.num_gpu_blocks = tiers.device_blocks
        spec = FullAttentionSpec(block_size=size, num_kv_heads=HEADS, head_size=HEAD_DIM, dtype=torch.float32)
        init_none_hash(sha256_cbor)
        self._hasher = get_request_block_hasher(size, sha256_cbor)
        self._scheduler = Scheduler(
            config,
            KVCacheConfig(tiers.device_blocks, [], [KVCacheGroupSpec(["layer"], spec)]),
            StructuredOutputManager(config),
            block_size=size,
            log_stats=True,
        )
        self._concurrency, self._disk = tiers.concurrency, tiers.disk
        self.loaded = Counter()
        if tiers.disk:
            # vLLM's own word on where a loaded token came from.
            connector, ask = (
                self._scheduler.connector,
                self._scheduler.connector.get_external_cache_hit_sources,
            )

            def sources(request, tokens):
                found = ask(request, tokens)
                self.loaded.update({source.name: count for source, count in found.items()})
                return found

            connector.get_external_cache_hit_sources = sources
        self._stores, self._random, self._hits = [], random.Random(0), [0, 0]

    def play(self, workload):
        """Serve a workload; what every request hit on the device and in the tier, by order of their ends."""
        waiting, running, outputs, ends = deque(enumerate(each(workload))), {}, {}, []
        before = list(self._hits)
        while waiting or running or self._scheduler.has_requests():
            while (
                waiting
                and len(running) < self._concurrency
                and not _must_wait(waiting[0][1], running, workload)
                # One at a time, a request comes after the last step of the one before it.
                and (self._concurrency > 1 or not self._scheduler.has_requests())
            ):
                number, request = waiting.popleft()
                prompt = resolve(symbolic(request, workload.seed), outputs)
                running[number] = self._submit(number, prompt, request.output_tokens)
            self._step()
            if self._disk:
                self._settle()
            for number, request in list(running.items()):
                if request.is_finished():
                    outputs[number] = list(request.output_token_ids)
                    del running[number]
                    ends.append(tuple(after - start for after, start in zip(self._hits, before, strict=True)))
                    before = list(self._hits)
        return ends

    def _submit(self, number, prompt, outputs):
        from vllm.sampling_params import SamplingParams
        from vllm.v1.request import Request as EngineRequest

        sampling = SamplingParams(max_tokens=outputs, ignore_eos=True, temperature=0)
        request = EngineRequest(str(number), prompt, sampling, None, block_hasher=self._hasher)
        self._scheduler.add_request(request)
        return request

    def _step(self):
        from vllm.v1.outputs import ModelRunnerOutput

        step = self._scheduler.schedule()
        ids = list(step.num_scheduled_tokens)
        running = [self._scheduler.requests[name] for name in ids]
        output = ModelRunnerOutput(
            ids,
            {name: at for at, name in enumerate(ids)},
            [
                [self._random.randrange(256, 8192)] if one.num_computed_tokens >= one.num_tokens else []
                for one in running
            ],
            kv_connector_output=self._transfers(step.kv_connector_metadata),
        )
        for engine in self._scheduler.update_from_output(step, output).values():
            if (stats := engine.scheduler_stats) is not None:
                self._hits[0] += stats.prefix_cache_stats.hits
                if stats.connector_prefix_cache_stats is not None:
                    self._hits[1] += stats.connector_prefix_cache_stats.hits

    def _settle(self):
        """Give the disk tier's threads the time that a model and a client give them."""
        time.sleep(0.0005)
        manager = self._scheduler.connector.connector_scheduler.manager
        deadline = time.monotonic() + 10
        while not self._scheduler.has_requests() and manager._jobs and time.monotonic() < deadline:
            time.sleep(0.001)
            manager._process_finished_jobs()

    def _transfers(self, asked):
        """As the worker does: a store starts with the step after the one that asked for it."""
        from vllm.distributed.kv_transfer.kv_connector.v1.offloading.common import OffloadingWorkerMetadata
        from vllm.v1.outputs import KVConnectorOutput

        if asked is None:
            return None
        done = OffloadingWorkerMetadata()
        for job in asked.jobs_to_flush or ():
            if asked.store_jobs.pop(job, None) is not None:
                done.mark_completed(job)
        for job in (*self._stores, *asked.load_jobs):
            done.mark_completed(job)
        self._stores = list(asked.store_jobs)
        return KVConnectorOutput(
            finished_sending=set(),
            finished_recving={job.req_id for job in asked.load_jobs.values()},
            kv_connector_worker_meta=done if done.completed_jobs else None,
        )

    def close(self):
        """Give the tier's shared memory back."""
        self._scheduler.shutdown()


def traffic(rng, block_tokens, most_tokens):
    """Prompts that repeat, extend, cut and branch off earlier ones and their answers, of lengths that matter."""
    most_output = rng.choice([1, 20, 200])
    documents = [
        (number, rng.randrange(1, max(2, most_tokens // 3))) for number in range(rng.randrange(1, 8))
    ]
    requests = []
    for number in range(rng.randrange(20, 80)):
        outputs = rng.choice([1, 2, rng.randrange(1, most_output + 1), most_output])
        kind = rng.random()
        if kind < 0.45 and requests:
            earlier = rng.randrange(len(requests))
            pieces = list(requests[earlier].pieces)
            if rng.random() < 0.7:
                pieces.append(Output(earlier, rng.randrange(1, requests[earlier].output_tokens + 1)))
            if rng.random() < 0.8:
                pieces.append(Text((9, number), rng.randrange(1, 3 * block_tokens)))
        elif kind < 0.85:
            chosen = rng.sample(documents, rng.randrange(1, min(4, len(documents) + 1)))
            pieces = [
                Text((1, name), tokens if rng.random() < 0.7 else rng.randrange(1, tokens + 1))
                for name, tokens in chosen
            ]
        else:
            pieces = [Text((3, number), rng.randrange(1, most_tokens))]
        # Ends on, just before and just behind the end of a block.
        tail = (rng.choice([0, -1, 1]) - sum(piece.tokens for piece in pieces)) % block_tokens
        if rng.random() < 0.3 and tail:
            pieces.append(Text((4, number), tail))
        if sum(piece.tokens for piece in pieces) + outputs <= most_tokens:
            requests.append(Request(tuple(pieces), outputs))
    return Listed("random", rng.randrange(1000), requests or [Request((Text((0,), 1),), 1)])


@pytest.fixture(scope="module")
def model(vllm, tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("oracle") / "model", ModelShape())


@pytest.mark.parametrize(
    "seed", [*range(8), *(pytest.param(seed, marks=pytest.mark.full) for seed in range(8, 60))]
)
def test_every_request_hits_what_is_predicted(model, seed):
    rng = random.Random(seed)
    block_tokens, device, per_chunk = (
        rng.choice([16, 32, 64]),
        rng.randrange(8, 80),
        rng.choice([1, 1, 2, 3, 4, 8]),
    )
    chunks = rng.choice([0, rng.randrange(1, 20), rng.randrange(1, 200), 1 + device // per_chunk])
    tiers = Tiers(block_tokens, device, chunks or None, per_chunk, prompt_only=rng.random() < 0.8)
    workload = traffic(rng, block_tokens, (device - 1) * block_tokens)
    oracle = Oracle(model, tiers, device * block_tokens)
    try:
        assert oracle.play(workload) == list(predict(workload, tiers).per_request)
    finally:
        oracle.close()


@pytest.mark.parametrize(
    "seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.full) for seed in range(3, 30))]
)
@pytest.mark.parametrize("backend", ["native+disk", "native+warmset"])
def test_hits_of_host_and_disk_are_predicted_apart(model, tmp_path, backend, seed):
    rng = random.Random(seed)
    if seed % 2:
        device, per_chunk = 160, rng.choice([1, 1, 2, 4])
        chunks = rng.choice([100, 170, 200, 300]) // per_chunk
        name = rng.choice(["chat", "agent", "rag", "overflow"])
        workload = builtin(name, Shape((device - 1) * 32, chunks * per_chunk * 32, 80, None, seed))
    else:
        device, per_chunk = rng.randrange(20, 60), rng.choice([1, 2, 4])
        # No prompt is longer than the host tier.
        chunks = device // per_chunk + rng.randrange(1, 40)
        workload = traffic(rng, 32, (device - 1) * 32)
    tiers = Tiers(32, device, chunks, per_chunk, disk=True)
    oracle = Oracle(model, tiers, max(device * 32, 2048), backend, tmp_path / "disk")
    try:
        hits = oracle.play(workload)
    finally:
        oracle.close()
    predicted = predict(workload, tiers)
    assert hits == list(predicted.per_request)
    assert (oracle.loaded["HOST"], oracle.loaded["DISK"]) == (
        predicted.host_hit_tokens,
        predicted.disk_hit_tokens,
    )


# Which of them ends first is not the same for every server, so the total is close and not exact.
@pytest.mark.parametrize(
    ("name", "seed"),
    [
        ("chat", 1),
        ("agent", 2),
        ("rag", 3),
        *(
            pytest.param(name, seed, marks=pytest.mark.full)
            for name in ("chat", "agent", "rag", "overflow")
            for seed in range(4, 10)
        ),
    ],
)
@pytest.mark.parametrize("tier", [100, 400])
def test_with_eight_in_flight_the_total_is_within_two_points(model, name, seed, tier):
    workload = builtin(name, Shape(159 * 32, tier * 32, 160, None, seed))
    tiers = Tiers(32, 160, host_chunks=tier, concurrency=8)
    oracle = Oracle(model, tiers, 8192)
    try:
        hits = sum(map(sum, oracle.play(workload)))
    finally:
        oracle.close()
    predicted = predict(workload, tiers)
    expected = predicted.device_hit_tokens + predicted.host_hit_tokens
    assert abs(hits - expected) / predicted.prompt_tokens <= 0.02
