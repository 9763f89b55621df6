"""Block sizes that the attention kernels accept: they decide the default block size and how blocks are split.

Facts of vLLM 0.32 on Hopper-class GPUs and on its CPU build (`get_supported_kernel_block_sizes` and
`get_preferred_block_size` of each attention backend).
"""

from dataclasses import dataclass

from warmset.geometry.kv_dtype import NVFP4, PACKED_LATENT_BYTES, PLAIN, TURBOQUANT
from warmset.geometry.page import KernelBlocks

DEFAULT_BLOCK_TOKENS = 16


@dataclass(frozen=True, slots=True)
class Kernel:
    """One attention backend: exact block sizes, or any multiple of `multiple_of`; `preferred` overrides both."""

    sizes: tuple[int, ...] = ()
    multiple_of: int | None = None
    preferred: int | None = None

    @property
    def smallest(self) -> int:
        """The smallest block that the kernel runs."""
        return min(self.offers)

    @property
    def offers(self) -> tuple[int, ...]:
        """The exact sizes, and the size whose multiples it takes."""
        return self.sizes if self.multiple_of is None else (*self.sizes, self.multiple_of)

    def accepts(self, block_tokens: int) -> bool:
        """Whether blocks of this size run, split into kernel blocks if need be."""
        return any(block_tokens % size == 0 for size in self.offers)

    def default(self) -> int:
        """The block size that the server picks for it."""
        if self.preferred is not None:
            return self.preferred
        return DEFAULT_BLOCK_TOKENS if self.accepts(DEFAULT_BLOCK_TOKENS) else self.smallest

    def largest_within(self, budget_bytes: int, token_bytes: int) -> int:
        """The largest block whose page fits in `budget_bytes`; the smallest block if none does."""
        fitting = budget_bytes // token_bytes
        candidates = list(self.sizes)
        if self.multiple_of is not None:
            candidates.append(max(self.multiple_of, fitting // self.multiple_of * self.multiple_of))
        return max((size for size in candidates if size <= fitting), default=min(candidates))


GENERIC = Kernel(multiple_of=16)
FLASHINFER = Kernel(sizes=(16, 32, 64))
TURBO = Kernel(sizes=(16, 32, 64, 128))
ULTRA = Kernel(sizes=(16, 32, 64, 128), preferred=64)
CPU = Kernel(multiple_of=32, preferred=128)
FLASH_LATENT = Kernel(sizes=(64,))
SPARSE_LATENT = Kernel(multiple_of=64)
INDEXER = Kernel(sizes=(64,))
CPU_LATENT = Kernel(sizes=(16,))
MINIMAX_SPARSE = Kernel(sizes=(128,))
DEEPSEEK_V4 = Kernel(sizes=(256,))
DEEPSEEK_V4_WINDOW = Kernel(multiple_of=32)
DEEPSEEK_V4_STATE = Kernel(multiple_of=1)


def attention_kernel(kv_dtype: str, platform: str) -> Kernel:
    """The kernel of ordinary attention layers."""
    if platform == "cpu":
        return CPU
    if kv_dtype in NVFP4:
        return FLASHINFER
    if kv_dtype in TURBOQUANT:
        return TURBO
    return ULTRA if kv_dtype == "ultraquant_4bit" else GENERIC


def latent_kernel(kv_dtype: str, platform: str, *, sparse: bool) -> Kernel:
    """The kernel of latent (MLA) layers; `sparse` ones come with an indexer."""
    if platform == "cpu":
        return CPU_LATENT
    return SPARSE_LATENT if sparse or kv_dtype in PACKED_LATENT_BYTES else FLASH_LATENT


def split_alignment(kernel: Kernel) -> KernelBlocks | None:
    """Blocks larger than every size that a fixed-size kernel takes are split into whole kernel blocks."""
    return KernelBlocks(max(kernel.sizes)) if kernel.sizes and kernel.multiple_of is None else None


def is_plain(kv_dtype: str) -> bool:
    """Whether the cache holds unquantized 16-bit values."""
    return kv_dtype in PLAIN
