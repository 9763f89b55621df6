"""The records of this room: links, accelerators and storage, with rates in bytes per second."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Link:
    """What carries KV cache between host memory and a device, one direction.

    `raw_bytes_per_second` is the rate of the standard, `usable_bytes_per_second` what large pinned copies
    reach. Both are 0 for `unified`, where host and device share one memory and nothing is carried.
    """

    name: str
    label: str
    raw_bytes_per_second: int
    usable_bytes_per_second: int
    source: str
    note: str = ""

    @property
    def unified(self) -> bool:
        """True where host and device memory are the same memory."""
        return self.usable_bytes_per_second == 0


@dataclass(frozen=True, slots=True)
class Accelerator:
    """One device as a server sees it.

    Attributes:
        memory_bytes: what the driver reports where that is known (`memory_basis` is `driver`), else the
            data sheet's GB taken as 10**9 bytes (`nominal`: never more than there is).
        memory_bandwidth_bytes_per_second: peak of the data sheet.
        bf16_flops, fp8_flops: peak *dense* tensor throughput (data sheets often state twice that, with
            sparsity); bf16 is fp16 where the device has no bf16; None where a rate does not exist.
        host_link: the link to host memory, per device.
        source: the document that the figures come from.
    """

    name: str
    label: str
    vendor: str
    aliases: tuple[str, ...]
    memory_bytes: int
    memory_basis: Literal["driver", "nominal"]
    memory_bandwidth_bytes_per_second: int
    bf16_flops: float
    fp8_flops: float | None
    host_link: Link
    source: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Storage:
    """A tier's medium below host memory, as one replica reaches it."""

    name: str
    kind: Literal["disk", "object"]
    label: str
    aliases: tuple[str, ...]
    raw_read_bytes_per_second: int
    read_bytes_per_second: int
    write_bytes_per_second: int
    source: str
    note: str = ""
