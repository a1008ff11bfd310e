"""HTTP for every route: bodies, keys, limits, conditional requests, idempotency, problems, the OpenAPI document."""
