"""What `make bench` runs: the product beside the best plain code, on the same data, in the same run."""
