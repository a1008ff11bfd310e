"""Commands that measure retrieval on judged collections, tune it, and collect judgments."""
