"""What a model's KV cache costs, in bytes.

`load` reads a model's configuration; `Geometry.footprint` gives its cost in one deployment.
"""

from warmset.geometry.footprint import Capacity, Footprint, LayerGroup, Rank
from warmset.geometry.geometry import Geometry, uniform
from warmset.geometry.kv_dtype import KV_DTYPES
from warmset.geometry.load import from_config, load, load_or_uniform

__all__ = [
    "KV_DTYPES",
    "Capacity",
    "Footprint",
    "Geometry",
    "LayerGroup",
    "Rank",
    "from_config",
    "load",
    "load_or_uniform",
    "uniform",
]
