"""An estimate of the time to first token, from where the prompt's tokens come."""

from dataclasses import dataclass

from warmset.errors import InputError


@dataclass(frozen=True, slots=True)
class Speeds:
    """What a server does per second, for one request at a time.

    Attributes:
        prefill_tokens_per_second: prompt tokens computed.
        load_bytes_per_second: KV bytes loaded from the host tier; None when loads cost no time.
        bytes_per_token: KV bytes of a token.
    """

    prefill_tokens_per_second: float
    load_bytes_per_second: float | None = None
    bytes_per_token: float | None = None

    def __post_init__(self) -> None:
        for name, value in (
            ("prefill speed", self.prefill_tokens_per_second),
            ("load speed", self.load_bytes_per_second),
        ):
            if value is not None and not 0 < value < 1e18:
                raise InputError(
                    f"{name} `{value:g}` is not a positive speed", hint="give tokens or GB per second"
                )


def mean_ttft_seconds(
    requests: int, prompt_tokens: int, device_hit_tokens: int, host_hit_tokens: int, speeds: Speeds
) -> float:
    """Mean over requests of (tokens computed / prefill speed) + (bytes loaded / load speed).

    Queueing, batching and the first decode step are left out: compare capacities with it, do not promise it.
    """
    computed = prompt_tokens - device_hit_tokens - host_hit_tokens
    seconds = computed / speeds.prefill_tokens_per_second
    if speeds.load_bytes_per_second is not None and speeds.bytes_per_token is not None:
        seconds += host_hit_tokens * speeds.bytes_per_token / speeds.load_bytes_per_second
    return seconds / requests if requests else 0.0
