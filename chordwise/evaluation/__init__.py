"""Judged collections: measure a namespace, compare runs, tune a profile, check the confidence of hits."""
