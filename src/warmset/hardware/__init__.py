"""What accelerators, host links and storage can do: data files and one record type each.

Public names: `accelerator`, `accelerators`, `storage`, `storages`, `link`, `links` and their records.
"""

from warmset.hardware.catalogue import accelerator, accelerators, link, links, storage, storages
from warmset.hardware.record import Accelerator, Link, Storage

__all__ = [
    "Accelerator",
    "Link",
    "Storage",
    "accelerator",
    "accelerators",
    "link",
    "links",
    "storage",
    "storages",
]
