"""Model files without pickle: data only, in a zip archive of one JSON document and one .npy member per array."""

from maxmargin.models.format import ModelFileError
from maxmargin.models.reading import load_model
from maxmargin.models.twins import register_eli5, register_onnx_converters
from maxmargin.models.writing import save_model

__all__ = ["ModelFileError", "load_model", "register_eli5", "register_onnx_converters", "save_model"]
