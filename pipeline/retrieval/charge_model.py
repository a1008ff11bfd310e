"""Count a call of the language model among a tenant's usage, at the prices of the time."""

from pipeline.records import TenantId
from pipeline.resources import Resources
from pipeline.tenants.usage import Purpose, UsageCounts


def charge_model(tenant_id: TenantId, purpose: Purpose, use: Resources, sent: int, received: int) -> None:
    """Count one request with the tokens of its prompt and of its reply."""
    prices = use.settings
    cost = sent * prices.llm_input_price_per_million + received * prices.llm_output_price_per_million
    counts = UsageCounts(requests=1, texts=1, tokens=sent + received, cost=cost / 1_000_000)
    use.usage_book.note(tenant_id, purpose, prices.llm_model, counts, job_id=None)
    use.usage_book.write_soon()
