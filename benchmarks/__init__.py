"""The benchmarks of `make bench`: the product and the best plain code, on the same data, in the same run."""
