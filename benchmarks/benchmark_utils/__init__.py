"""What ``compare.py`` and the benchopt classes share. The folder's name is benchopt's."""
