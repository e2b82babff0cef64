"""The package's version, in a module without imports; other code uses `triobot.__version__`."""

__version__ = "0.1.0"
