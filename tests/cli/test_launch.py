"""`warmset launch` from the command line."""

import json
import shlex

import pytest
import yaml
from jsonschema import Draft202012Validator

from warmset.report.data import schema_text

CASES = [
    (
        "llama-3.1-8b",
        "--tier",
        "230GiB",
        "--engine",
        "vllm@0.26",
        "--backend",
        "lmcache-inprocess",
        "--as",
        "helm",
    ),
    ("llama-3.1-8b", "--tier", "230GiB", "--engine", "vllm@0.13"),
    ("--tier", "230"),
    ("a/b", "--tier", "230", "--backend", "native+object", "--object-store", "s3://b/p", "--as", "kserve"),
    ("a/b", "--tier", "200GB", "--engine", "sglang@0.5.23", "--as", "compose"),
    ("a/b", "--tier", "64GiB", "--backend", "lmcache", "--lmcache", "0.5.6", "--disk-size", "1TiB"),
]


@pytest.mark.parametrize("arguments", CASES)
def test_output_follows_the_schema(warmset, arguments):
    ran = warmset("launch", *arguments, "-o", "json")
    assert ran.code == 0, ran.err
    payload = ran.json()
    Draft202012Validator(json.loads(schema_text("launch"))).validate(payload)
    assert payload["schema"] == "warmset.launch/1"
    assert shlex.split(payload["command"])
    assert yaml.safe_load(warmset("launch", *arguments, "-o", "yaml").out) == payload
    assert payload["command"] in warmset("launch", *arguments).out
    assert payload["command"] in warmset("launch", *arguments, "-o", "md").out


def test_a_catalogue_name_becomes_what_the_server_downloads(warmset):
    argv = warmset("launch", "llama-3.1-8b", "--tier", "1", "-o", "json").json()["argv"]
    assert argv[2].startswith("meta-llama/")


@pytest.mark.parametrize(
    ("arguments", "said", "hinted"),
    [
        (("lama-3.1-8b", "--tier", "1"), "lama-3.1-8b", "llama-3.1-8b"),
        (("a/b", "--tier", "1", "--engine", "vllm@0.10"), "0.10.2", "--engine vllm@0.11.0"),
        (
            ("a/b", "--tier", "1", "--engine", "vllm@0.21", "--backend", "native+disk"),
            "0.21.0",
            "vllm@0.22.0",
        ),
        (("a/b", "--tier", "1", "--engine", "tgi@1"), "tgi", "vllm@"),
        (("a/b", "--tier", "-1"), "-1", ""),
        (("a/b", "--tier", "0"), "0", "1 MiB"),
        (("a/b", "--tier", "1", "--backend", "nativ"), "nativ", "native"),
        (("a/b", "--tier", "1", "--as", "swarm"), "swarm", "compose"),
        (("a/b", "--tier", "1", "--tp", "0"), "--tp", "--tp 1"),
        (("a/b",), "--tier", "--help"),
        (("a/b", "--tier", "1", "--lmcache", "x", "--backend", "lmcache"), "x", "lmcache@"),
    ],
)
def test_refusals(warmset, arguments, said, hinted):
    ran = warmset("launch", *arguments)
    assert ran.code == 2
    assert ran.out == ""
    assert said in ran.err
    assert hinted in ran.err.partition("hint:")[2]
