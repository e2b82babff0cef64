"""The version of this package: a leaf, for whoever shows it; `triobot.__version__` for everyone else."""

__version__ = "0.1.0"
