"""What reading one file gives, before files are linked with each other."""

from dataclasses import dataclass, field

from warmset.checks.inputs.logs import Log
from warmset.checks.record import ServerLaunch
from warmset.checks.text import Source, Word
from warmset.checks.tree import Node
from warmset.meters import Snapshot


@dataclass(slots=True)
class Parsed:
    """One file, read: servers that it starts, and settings that other files may refer to."""

    source: Source
    kind: str
    launches: list[ServerLaunch] = field(default_factory=list)
    env: dict[str, Word] = field(default_factory=dict)
    config_maps: dict[str, dict[str, Word]] = field(default_factory=dict)
    lmcache: list[Node] = field(default_factory=list)
    mooncake: list[Node] = field(default_factory=list)
    queries: list[Word] = field(default_factory=list)
    cache_servers: list[ServerLaunch] = field(default_factory=list)
    log: Log | None = None
    snapshot: Snapshot | None = None
    notes: list[str] = field(default_factory=list)
    optional: bool = False  # met in a directory: it may be no input at all
    is_the_log: bool = False  # named as the log of the servers: without it, no answer is whole
