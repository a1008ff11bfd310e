"""The methods of both clients, each made from the steps of one operation."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine
from types import MethodType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from chordwise.operations import Operations
from chordwise.transport import Steps

if TYPE_CHECKING:
    from chordwise.async_client import AsyncChordwise
    from chordwise.client import Chordwise

P = ParamSpec("P")
T = TypeVar("T")


class method(Generic[P, T]):  # noqa: N801 - used as property is
    """An operation as a method: a function of ``Chordwise``, a coroutine function of ``AsyncChordwise``. Name, parameters
    and docstring are the operation's."""

    def __init__(self, steps: Callable[Concatenate[Operations, P], Steps[T]]) -> None:
        @functools.wraps(steps)
        def call(client: Chordwise, *args: P.args, **kwargs: P.kwargs) -> T:
            return client._run(steps(client._operations, *args, **kwargs))

        @functools.wraps(steps)
        async def await_call(client: AsyncChordwise, *args: P.args, **kwargs: P.kwargs) -> T:
            return await client._run(steps(client._operations, *args, **kwargs))

        signature = inspect.signature(steps)
        result = str(signature.return_annotation).removeprefix("Steps[").removesuffix("]")
        functions: tuple[Any, Any] = (call, await_call)
        for function in functions:
            function.__signature__ = signature.replace(return_annotation=result)
        self._call, self._await_call = functions

    @overload
    def __get__(self, client: Chordwise, owner: Any) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: AsyncChordwise, owner: Any) -> Callable[P, Coroutine[Any, Any, T]]: ...
    @overload
    def __get__(self, client: None, owner: Any) -> Callable[..., Any]: ...
    def __get__(self, client: Any, owner: Any) -> Any:
        function = self._await_call if inspect.iscoroutinefunction(owner._run) else self._call
        return function if client is None else MethodType(function, client)


class Methods:
    """What both clients can do, but for waiting for jobs and following them."""

    ingest = method(Operations.ingest)
    ingest_files = method(Operations.ingest_files)
    job = method(Operations.job)
    jobs = method(Operations.jobs)
    documents = method(Operations.documents)
    delete_document = method(Operations.delete_document)
    namespaces = method(Operations.namespaces)
    quotas = method(Operations.quotas)
    verify = method(Operations.verify)
    health = method(Operations.health)
    server_version = method(Operations.server_version)

    cancel_job = method(Operations.cancel_job)
    retry_job = method(Operations.retry_job)
    pause_job = method(Operations.pause_job)
    resume_job = method(Operations.resume_job)
    dead_letters = method(Operations.dead_letters)
    dead_letter = method(Operations.dead_letter)
    replay_dead_letter = method(Operations.replay_dead_letter)
    replay_dead_letters = method(Operations.replay_dead_letters)
    drop_dead_letter = method(Operations.drop_dead_letter)

    job_items = method(Operations.job_items)
    document = method(Operations.document)
    webhook = method(Operations.webhook)
    delete_namespace = method(Operations.delete_namespace)

    webhooks = method(Operations.webhooks)
    add_webhook = method(Operations.add_webhook)
    remove_webhook = method(Operations.remove_webhook)
    rotate_webhook = method(Operations.rotate_webhook)
    enable_webhook = method(Operations.enable_webhook)
    test_webhook = method(Operations.test_webhook)
    webhook_deliveries = method(Operations.webhook_deliveries)
    webhook_delivery = method(Operations.webhook_delivery)
    redeliver = method(Operations.redeliver)

    import_examples = method(Operations.import_examples)
    examples_template = method(Operations.examples_template)
    example_statistics = method(Operations.example_statistics)
    verify_examples = method(Operations.verify_examples)

    put_entities = method(Operations.put_entities)
    entities = method(Operations.entities)
    delete_entities = method(Operations.delete_entities)

    query = method(Operations.query)
    submit_query = method(Operations.submit_query)
    query_result = method(Operations.query_result)
    cancel_query = method(Operations.cancel_query)

    generations = method(Operations.generations)
    rollback = method(Operations.rollback)

    export = method(Operations.export)
    import_archive = method(Operations.import_archive)

    usage = method(Operations.usage)

    start_migration = method(Operations.start_migration)
    migrations = method(Operations.migrations)
    steer_migration = method(Operations.steer_migration)

    doctor = method(Operations.doctor)

    trace = method(Operations.trace)
    why_not = method(Operations.why_not)
    replay = method(Operations.replay)

    sources = method(Operations.sources)
    source = method(Operations.source)
    delete_source = method(Operations.delete_source)

    profile = method(Operations.profile)
    store_profile = method(Operations.store_profile)
    profiles = method(Operations.profiles)
    profile_versions = method(Operations.profile_versions)
    activate_profile = method(Operations.activate_profile)
    rollback_profile = method(Operations.rollback_profile)
    delete_profile = method(Operations.delete_profile)

    tenants = method(Operations.tenants)
    tenant = method(Operations.tenant)
    create_tenant = method(Operations.create_tenant)
    tenant_quotas = method(Operations.tenant_quotas)
    set_tenant_quotas = method(Operations.set_tenant_quotas)
    disable_tenant = method(Operations.disable_tenant)
    enable_tenant = method(Operations.enable_tenant)
    erase_tenant = method(Operations.erase_tenant)
    current_key = method(Operations.current_key)
    keys = method(Operations.keys)
    key = method(Operations.key)
    create_key = method(Operations.create_key)
    rotate_key = method(Operations.rotate_key)
    revoke_key = method(Operations.revoke_key)
    audit = method(Operations.audit)

    chunks = method(Operations.chunks)
    edit_chunks = method(Operations.edit_chunks)
    delete_chunks = method(Operations.delete_chunks)
    preview = method(Operations.preview)

    feedback = method(Operations.feedback)
    feedback_given = method(Operations.feedback_given)
    take_back = method(Operations.take_back)
    judgments = method(Operations.judgments)
    experiment_results = method(Operations.experiment_results)

    dictionary = method(Operations.dictionary)
    store_dictionary = method(Operations.store_dictionary)
    delete_dictionary = method(Operations.delete_dictionary)
    api_sources = method(Operations.api_sources)
    api_source = method(Operations.api_source)
    store_api_source = method(Operations.store_api_source)
    delete_api_source = method(Operations.delete_api_source)
    try_api_source = method(Operations.try_api_source)
    experiments = method(Operations.experiments)
    store_experiment = method(Operations.store_experiment)
    delete_experiment = method(Operations.delete_experiment)
