"""The plugins of ``plugins/`` against small stand-ins of the engines' classes."""
