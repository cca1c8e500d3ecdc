"""The part of the feature check that needs torch: samples as tensors, and what states they are."""
