"""How fast `warmset check` reads and judges manifests."""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from warmset.checks import Facts, collect, run
from warmset.units import GIB

MANIFESTS = 1_000

_MANIFEST = """apiVersion: apps/v1
kind: Deployment
metadata:
  name: engine-{n}
  labels: {{app: engine, tier: "{n}"}}
spec:
  replicas: 2
  selector: {{matchLabels: {{app: engine}}}}
  template:
    metadata:
      labels: {{app: engine}}
      annotations:
        prometheus.io/scrape: "true"
        prometheus.io/port: "8000"
    spec:
      nodeSelector: {{gpu: h100}}
      containers:
      - name: vllm
        image: vllm/vllm-openai:v0.{minor}.0
        command: ["/bin/sh", "-c"]
        args:
        - |
          exec vllm serve org/model-{n} \\
            --tensor-parallel-size 4 --max-model-len 32768 \\
            --kv-transfer-config '{{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":{{"spec_name":"TieringOffloadingSpec","cpu_bytes_to_use":{size},"secondary_tiers":[{{"type":"fs","root_dir":"/kv"}}]}}}}'
        env:
        - {{name: HF_HOME, value: /models}}
        - name: HF_TOKEN
          valueFrom: {{secretKeyRef: {{name: hf, key: token}}}}
        - {{name: PYTHONHASHSEED, value: "0"}}
        ports: [{{containerPort: 8000, name: http}}]
        resources:
          requests: {{cpu: "16", memory: 300Gi, nvidia.com/gpu: "4"}}
          limits: {{memory: 400Gi, nvidia.com/gpu: "4"}}
        readinessProbe:
          httpGet: {{path: /health, port: http}}
          periodSeconds: 10
        volumeMounts:
        - {{name: dshm, mountPath: /dev/shm}}
        - {{name: kv, mountPath: /kv}}
        - {{name: models, mountPath: /models}}
      volumes:
      - name: dshm
        emptyDir: {{medium: Memory, sizeLimit: 250Gi}}
      - name: kv
        persistentVolumeClaim: {{claimName: kv-{n}}}
      - name: models
        hostPath: {{path: /srv/models}}
"""  # noqa: E501  # one line, as it stands in manifests


def main() -> Iterator[tuple[str, float, str]]:
    """1,000 manifests of 60 lines in one directory, read, linked and checked by all rules."""
    with tempfile.TemporaryDirectory() as folder:
        for n in range(MANIFESTS):
            text = _MANIFEST.format(n=n, minor=22 + n % 11, size=(n % 200 + 1) * GIB)
            (Path(folder) / f"engine-{n:04d}.yaml").write_text(text)
        start = time.process_time()
        result = run(collect([folder]), Facts(host_ram_bytes=1024 * GIB))
        seconds = time.process_time() - start
    yield "check: 1,000 manifests of 60 lines", seconds, "CPU seconds (bound: 5)"
    yield "check: findings in them", float(len(result.findings)), "findings"
