"""What the script of the article imports."""

import xgboost  # noqa: F401
