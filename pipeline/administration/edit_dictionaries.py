"""The dictionaries of a tenant: one for each namespace, and one for all of them."""

from pipeline.administration.call_store import call_store
from pipeline.database.unit_of_work import unit_of_work
from pipeline.keyword.dictionary import Dictionary
from pipeline.keyword.dictionary_store import Dictionaries
from pipeline.records import Namespace, TenantId
from pipeline.resources import Resources

replace_dictionary = call_store(Dictionaries, Dictionaries.replace)
delete_dictionary = call_store(Dictionaries, Dictionaries.delete)


def load_dictionary(tenant_id: TenantId, namespace: Namespace, use: Resources) -> tuple[Dictionary | None, int]:
    """Return the dictionary of a namespace, or None, and its version, 0 if there was never one."""
    with unit_of_work(use.mysql) as work:
        store = Dictionaries(work.connection, tenant_id)
        return store.load([namespace]).get(namespace), store.versions([namespace]).get(namespace, 0)
