"""Where each kind of store takes its credentials from: never from its URL, which ends up in logs and process lists."""

_OBJECT = "set {} in the environment, or use the machine's own identity"
CREDENTIALS = {
    "s3": _OBJECT.format("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"),
    "gs": _OBJECT.format("GOOGLE_APPLICATION_CREDENTIALS"),
    "az": _OBJECT.format("AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY"),
    "redis": "set WARMSET_REDIS_PASSWORD in the environment",
    "rediss": "set WARMSET_REDIS_PASSWORD in the environment",
    "file": "a directory has none: write it like `file:///var/kv`",
}
