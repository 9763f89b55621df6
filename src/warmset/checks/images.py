"""What a container image says about the server in it: which one, which version, which platform."""

import re
from dataclasses import dataclass

from warmset.checks.record import Server, ServerLaunch
from warmset.checks.text import Word

# repository pattern → server that the image's entry point starts. The first match wins.
_REPOSITORIES: tuple[tuple[str, Server], ...] = (
    (r"lmcache/(lmcache-server|standalone)", "lmcache-server"),
    (r"lmcache/vllm-openai", "vllm"),
    (r"vllm/vllm-(openai|cpu|tpu|xpu)", "vllm"),
    (r"rocm/vllm", "vllm"),
    (r"llm-d/llm-d", "vllm"),
    (r"(^|/)vllm(-[a-z0-9]+)*$", "vllm"),
    (r"lmsysorg/sglang|(^|/)sglang(-[a-z0-9]+)*$", "sglang"),
)
_VERSION = re.compile(r"(?:^|[^0-9.])v?(0\.\d{1,3}(?:\.\d{1,3})?(?:\.?rc\d+)?)(?![0-9])")
_DATE = re.compile(r"(20\d\d)-(\d\d)-\d\d")
# Images tagged with a date only: the newest vLLM release of that month.
_BY_MONTH = (
    ("2025-04", "0.8.5"),
    ("2025-06", "0.9.1"),
    ("2025-07", "0.9.2"),
    ("2025-08", "0.10.0"),
    ("2025-09", "0.10.2"),
    ("2025-11", "0.11.0"),
    ("2025-12", "0.12.0"),
)


@dataclass(frozen=True, slots=True)
class Image:
    """An image reference, read."""

    word: Word
    server: Server | None
    version: str | None
    lmcache_version: str | None
    platform: str

    def apply(self, launch: ServerLaunch) -> ServerLaunch:
        """Add to a launch what the image says and the launch does not."""
        return launch.with_(
            version=launch.version or self.version,
            version_source=launch.version_source
            or (f"image `{self.word.value[-60:]}`" if self.version else ""),
            lmcache_version=launch.lmcache_version or self.lmcache_version,
            platform=launch.platform or self.platform,
        )


def read_image(word: Word) -> Image:
    """Read an image reference such as `vllm/vllm-openai:v0.26.0`."""
    reference = word.value.split("@", 1)[0].lower()
    repository, _, tag = (
        reference.rpartition(":") if ":" in reference.rsplit("/", 1)[-1] else (reference, "", "")
    )
    server = next((s for pattern, s in _REPOSITORIES if re.search(pattern, repository)), None)
    match = _VERSION.search(tag)
    version = match[1] if match else None
    lmcache = None
    if "lmcache/" in repository:
        # These tags are LMCache's own; the vLLM inside is not in the name, except by the date of the build.
        lmcache, version = version, None
    if version is None and (date := _DATE.search(tag)) is not None and server == "vllm":
        month = f"{date[1]}-{date[2]}"
        version = next((v for m, v in _BY_MONTH if month <= m), None)
    if "llm-d/" in repository:
        version = None
    platform = next((p for p in ("rocm", "xpu", "cpu", "tpu") if re.search(rf"(^|[/:_-]){p}", reference)), "")
    return Image(word, server, version, lmcache, platform or ("cuda" if server else ""))
