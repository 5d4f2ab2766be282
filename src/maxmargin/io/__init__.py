"""Data and model files."""

from maxmargin.io.chunks import ChunkedData, open_chunks
from maxmargin.io.csv import read_csv
from maxmargin.io.data import read_data
from maxmargin.io.libsvm import read_libsvm, write_libsvm
from maxmargin.io.shards import ShardedData, open_shards
from maxmargin.io.textfile import DataFileError
from maxmargin.models import ModelFileError, load_model, register_eli5, register_onnx_converters, save_model
from maxmargin.operators import ChunkedMatrix

__all__ = [
    "ChunkedData",
    "ChunkedMatrix",
    "DataFileError",
    "ModelFileError",
    "ShardedData",
    "load_model",
    "open_chunks",
    "open_shards",
    "read_csv",
    "read_data",
    "read_libsvm",
    "register_eli5",
    "register_onnx_converters",
    "save_model",
    "write_libsvm",
]
