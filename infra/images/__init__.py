"""How each folder of `containers/` becomes an image."""

from compilegate.infra.images.stack import ImagesStack

__all__ = ["ImagesStack"]
