"""What differs between the versions of vLLM that know tiers from outside (0.28 and newer)."""

from dataclasses import fields
from inspect import signature
from typing import Any

from vllm.v1.kv_offload.base import OffloadingEvent, OffloadKey, ReqContext
from vllm.v1.kv_offload.tiering.base import JobResult, SecondaryTierManager, TransferJob

_EVENT_FIELDS = frozenset(field.name for field in fields(OffloadingEvent))
_RESULT_FIELDS = frozenset(field.name for field in fields(JobResult))
_INIT_PARAMETERS = frozenset(signature(SecondaryTierManager.__init__).parameters)
# Since 0.31 a request knows where each of its blocks ends.
HAS_POSITIONS = hasattr(ReqContext, "get_offload_key_position")


def base_arguments(*, backpressure_detector: Any) -> dict[str, Any]:
    """What the base class takes beside its first three arguments."""
    return _known(_INIT_PARAMETERS, backpressure_detector=backpressure_detector)


def block_bytes(primary_kv_view: memoryview) -> int:
    """Bytes of one slot of the host tier."""
    return primary_kv_view.strides[0] if primary_kv_view.strides else primary_kv_view.nbytes


def slots_of(job: TransferJob) -> list[int]:
    """The slots of a job; its blocks were not called chunks before 0.29."""
    return [int(slot) for slot in (job.chunk_ids if hasattr(job, "chunk_ids") else job.block_ids)]


def position_of(key: OffloadKey, req_context: ReqContext) -> int | None:
    """Where the block of `key` ends in the prompt; None where the version does not tell."""
    return req_context.get_offload_key_position(key) if HAS_POSITIONS else None


def event(**values: Any) -> OffloadingEvent:
    """An event with those of its fields that the version has."""
    return OffloadingEvent(**_known(_EVENT_FIELDS, **values))


def job_result(**values: Any) -> JobResult:
    """A result with those of its fields that the version has."""
    return JobResult(**_known(_RESULT_FIELDS, **values))


def _known(names: frozenset[str], **values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name in names}
