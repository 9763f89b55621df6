uv venv --python 3.12 && source .venv/bin/activate
uv pip install "vllm==0.30.0" --torch-backend=auto
nohup vllm serve zai-org/GLM-4.5-Air --tensor-parallel-size 4 --kv-offloading-size 256 > vllm.log 2>&1 &
