//! The Python module under `pyflame`.
