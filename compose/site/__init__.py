"""`make docs`: README and docs/ as a website with search, in English and Chinese."""
