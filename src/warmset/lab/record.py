"""What a lab is asked and what it answers."""

from dataclasses import dataclass
from pathlib import Path

from warmset.lab.model import Attention
from warmset.meters.measurement import Measurement
from warmset.traces.options import ReadOptions


@dataclass(frozen=True, slots=True)
class Lab:
    """A lab to be run on this machine.

    Attributes:
        workload: name of a built-in workload; ignored with `trace`.
        trace: file of a trace to replay (`path` or `format:path`).
        device_blocks: blocks of the device pool, the one that the server keeps included.
        tier_blocks: device blocks that the host tier holds; None is 400, or what a running server says.
        block_tokens: tokens per block; the CPU build takes multiples of 32.
        requests: how many to replay; None is 160, or the whole trace.
        output_tokens: generated per request; None leaves it to the workload or the trace.
        model: directory of a model; None writes a small one.
        attention: of the small model.
        python: interpreter with vLLM; None is this one.
        run_dir: where results and logs are kept; None chooses a place.
        reading: how to read the trace.
    """

    workload: str = "chat"
    trace: str | Path | None = None
    device_blocks: int = 160
    tier_blocks: int | None = None
    block_tokens: int = 32
    blocks_per_chunk: int = 1
    requests: int | None = None
    seed: int = 0
    concurrency: int = 1
    output_tokens: int | None = None
    backend: str = "native"
    model: Path | None = None
    attention: Attention = "full"
    python: str | None = None
    port: int = 0
    run_dir: Path | None = None
    reading: ReadOptions | None = None

    @property
    def host_blocks(self) -> int:
        """`tier_blocks`, or the default."""
        return 400 if self.tier_blocks is None else self.tier_blocks


@dataclass(frozen=True, slots=True)
class Hits:
    """Prompt tokens that were not computed, by where they came from; None where it is not known."""

    device_hit_tokens: int | None
    host_hit_tokens: int | None
    disk_hit_tokens: int | None = None
    external_hit_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class LabResult:
    """The circle, once round.

    Attributes:
        off: meters without a tier; None against a server that runs already.
        on: meters with the tier, judged against `off`.
        predicted, measured: hits with the tier.
        predicted_off, measured_off: hits without it.
        outputs_identical: both runs generated the same tokens; None where that is not known.
        run_dir: scrapes, logs, trace and result.
    """

    workload: str
    requests: int
    seed: int
    concurrency: int
    backend: str
    block_tokens: int | None
    device_blocks: int | None
    tier_blocks: int | None
    blocks_per_chunk: int
    prompt_tokens: int
    off: Measurement | None
    on: Measurement
    predicted: Hits
    measured: Hits
    predicted_off: Hits | None
    measured_off: Hits | None
    outputs_identical: bool | None
    run_dir: Path
    notes: tuple[str, ...]

    @property
    def exact(self) -> bool | None:
        """Whether prediction and measurement agree to the token; None where there is no prediction."""
        p, m = self.predicted, self.measured
        if p.device_hit_tokens is None or p.external_hit_tokens is None:
            return None
        pairs = [
            (p.device_hit_tokens, m.device_hit_tokens),
            (p.host_hit_tokens, m.host_hit_tokens),
            (p.disk_hit_tokens, m.disk_hit_tokens),
            (p.external_hit_tokens, m.external_hit_tokens),
        ]
        return all(predicted == measured for predicted, measured in pairs if predicted is not None)

    @property
    def difference_ratio(self) -> float | None:
        """Measured minus predicted hit ratio, device and tiers together."""
        if self.predicted.device_hit_tokens is None or self.predicted.external_hit_tokens is None:
            return None
        predicted = self.predicted.device_hit_tokens + self.predicted.external_hit_tokens
        measured = (self.measured.device_hit_tokens or 0) + (self.measured.external_hit_tokens or 0)
        return (measured - predicted) / self.prompt_tokens if self.prompt_tokens else None
