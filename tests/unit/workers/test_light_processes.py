"""Processes that only watch load no stores, and queries read weights that processes share."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

from pipeline.models.local_embedder import LocalEmbedder

HEAVY = ("numpy", "sqlalchemy", "psycopg", "pymysql", "tantivy", "tokenizers", "httpx", "pipeline.resources")


class DescribeTheObserver:
    def it_loads_no_stores_and_no_models(self):
        shown = f"print([name for name in {HEAVY} if name in sys.modules])"
        code = f"import sys, workers.observer; workers.observer.app.conf.task_queues; {shown}"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
        assert done.stdout.strip() == "[]"


class DescribeTheLocalModel:
    def it_gives_a_query_the_vector_that_a_batch_of_documents_gets(self):
        """Queries read the weights in half precision from a file that processes share, batches a copy in single precision."""
        texts = [f"The pump number {number} starts. 离心泵启动前必须灌泵。" for number in range(40)] + [""]
        for dimension in (64, 256):
            embedder = LocalEmbedder(dimension=dimension)
            together = embedder.embed(texts)
            assert together.dtype == np.float32
            assert np.array_equal(together, np.vstack([embedder.embed([text]) for text in texts]))
