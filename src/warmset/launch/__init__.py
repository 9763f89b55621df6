"""One writer per backend and target: a request in, exactly what to type out.

>>> from warmset.launch import LaunchRequest, write
>>> from warmset.servers import engine
>>> write(LaunchRequest(tier_bytes=230 * 2**30, engine=engine("vllm@0.16"), model="org/model")).command
'vllm serve org/model --kv-offloading-size 230'
"""

from warmset.launch.launch import Launch, write
from warmset.launch.parts import Conversion
from warmset.launch.request import BACKENDS, TARGETS, LaunchRequest

__all__ = ["BACKENDS", "TARGETS", "Conversion", "Launch", "LaunchRequest", "write"]
