"""`make client-js`: write the operations and types of the JavaScript client from the OpenAPI description.

Writes `operations.js` and `operations.d.ts`; everything else in `clients/javascript` is written by hand. The routes of
other dialects (OpenAI, Dify, MCP) are left out: their own clients speak them.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent / "javascript"
_HEAD = "// Written by `make client-js` from the OpenAPI description. Do not edit.\n"
_METHODS = ("get", "put", "post", "delete")
_FOLLOWED = ("events", "stream")
# Operations whose name does not follow from the route.
_NAMES = {
    ("post", "/v1/documents"): "ingestDocuments",
    ("post", "/v1/files"): "uploadFiles",
    ("post", "/v1/examples"): "importExamples",
    ("post", "/v1/verify"): "verify",
    ("post", "/v1/queries"): "query",
    ("post", "/v1/rag/query"): "ragQuery",
    ("post", "/v1/rag/debug"): "ragDebug",
    ("post", "/v1/queries/{query_id}/feedback"): "giveFeedback",
    ("post", "/v1/queries/{query_id}/why-not"): "whyNot",
    ("post", "/v1/chunks/preview"): "previewChunks",
    ("post", "/v1/dead-letters/replay"): "replayDeadLetters",
    ("get", "/v1/examples/template.xlsx"): "getExamplesTemplate",
    ("get", "/v1/audit/export"): "exportAudit",
    ("get", "/v1/keys/current"): "getCurrentKey",
    ("get", "/v1/metrics/history"): "getMetricsHistory",
    ("get", "/v1/namespaces/{namespace}/export"): "exportNamespace",
    ("get", "/v1/usage"): "getUsage",
    ("get", "/v1/jobs/{job_id}/events"): "followJob",
    ("get", "/v1/queries/{query_id}/events"): "followQuery",
}
_IRREGULAR = {
    "queries": "query",
    "query-batches": "query-batch",
    "batches": "batch",
    "entities": "entity",
    "deliveries": "delivery",
    "feedback": "feedback",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One method of the client. ``answer`` is json, none, response for bytes, events, or stream for events without resuming."""

    name: str
    method: str
    path: str
    summary: str
    segments: tuple[str, ...]
    query: tuple[Mapping[str, Any], ...]
    body: str
    body_kind: str
    body_required: bool
    idempotent: bool
    answer: str
    result: str


def operations(document: Mapping[str, Any]) -> list[Operation]:
    """Return the operations below `/v1`, by path and method. Raises ValueError if two would have one name."""
    found = [
        operation
        for path, methods in sorted(document["paths"].items())
        if path.startswith("/v1/")
        for method, described in sorted(methods.items())
        if method in _METHODS
        for operation in _operations(document, method, path, described)
    ]
    names = [operation.name for operation in found]
    if repeated := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"give these operations names of their own in _NAMES: {', '.join(sorted(repeated))}")
    return found


def _operations(
    document: Mapping[str, Any], method: str, path: str, described: Mapping[str, Any]
) -> Iterator[Operation]:
    """Yield an operation, and once more as a stream if its answer comes as JSON or as events."""
    found = _operation(document, method, path, described)
    yield found
    if found.answer == "json" and any(
        "text/event-stream" in each.get("content", {}) for each in described["responses"].values()
    ):
        name, summary = "stream" + found.name[0].upper() + found.name[1:], f"{found.summary}, as events"
        yield replace(found, name=name, summary=summary, answer="stream", result="ServerEvent", idempotent=False)


def _operation(document: Mapping[str, Any], method: str, path: str, described: Mapping[str, Any]) -> Operation:
    parameters = described.get("parameters", ())
    content = described.get("requestBody", {}).get("content", {})
    kind = next(
        (kind for kind in ("application/json", "multipart/form-data") if kind in content), next(iter(content), "")
    )
    answer, result = _answer(described["responses"])
    headers = {parameter["name"].lower() for parameter in parameters if parameter["in"] == "header"}
    return Operation(
        name=_NAMES.get((method, path)) or _name(method, path, result, document["paths"]),
        method=method.upper(),
        path=path,
        summary=described.get("summary", ""),
        segments=tuple(re.findall(r"{(\w+)}", path)),
        query=tuple(parameter for parameter in parameters if parameter["in"] == "query"),
        body=" | ".join(dict.fromkeys(_body_type(name, media) for name, media in content.items())),
        body_kind=kind,
        body_required=described.get("requestBody", {}).get("required", False),
        idempotent="idempotency-key" in headers,
        answer=answer,
        result=result,
    )


def _body_type(media_type: str, media: Mapping[str, Any]) -> str:
    if media_type in ("application/json", "multipart/form-data"):
        written = type_of(media.get("schema", {}), "  ")
        return f"{written} | FormData" if media_type.startswith("multipart") else written
    return "Blob | Uint8Array | ArrayBuffer"


def _answer(responses: Mapping[str, Any]) -> tuple[str, str]:
    """Return the kind and the type of the answers of success."""
    contents = [response.get("content", {}) for status, response in responses.items() if status.startswith("2")]
    kinds = {kind for content in contents for kind, media in content.items() if media.get("schema")}
    if kinds == {"text/event-stream"}:
        return "events", "ServerEvent"
    if kinds - {"application/json", "text/event-stream"}:
        return "response", "Response"
    schemas = [type_of(content["application/json"].get("schema", {})) for content in contents if content]
    if not schemas:
        return "none", "void"
    return "json", " | ".join(dict.fromkeys(schemas))


def _name(method: str, path: str, result: str, paths: Mapping[str, Any]) -> str:
    """Return the name of an operation by its route: listDocuments, getDocument, cancelJob, createTenantKey."""
    parts = path.removeprefix("/v1/").removeprefix("admin/").split("/")
    words = [
        _camel(_singular(part) if at + 1 < len(parts) and parts[at + 1].startswith("{") else part)
        for at, part in enumerate(parts)
        if not part.startswith("{")
    ]
    if method == "get":
        is_list = not parts[-1].startswith("{") and re.search(r"(Page|List|Results)$", result)
        return ("list" if is_list else "get") + "".join(words)
    if method in ("put", "delete"):
        return method + "".join(words)
    if parts[-1].startswith("{") or "get" in paths.get(path, {}) or len(words) == 1:
        return "create" + "".join([*words[:-1], _camel(_singular(parts[-1]))])
    verb = words.pop()
    return verb[0].lower() + verb[1:] + "".join(words)


def _singular(word: str) -> str:
    return _IRREGULAR.get(word) or word.removesuffix("s")


def _camel(word: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in re.split(r"[^A-Za-z0-9]+", word))


def _argument(name: str) -> str:
    camel = _camel(name)
    return camel[0].lower() + camel[1:]


def type_of(schema: Any, indent: str = "") -> str:
    """Return the TypeScript type of a JSON schema; `unknown` for what says nothing."""
    if not isinstance(schema, Mapping) or not schema:
        return "unknown"
    if "$ref" in schema:
        return str(schema["$ref"]).rsplit("/", 1)[-1]
    if "const" in schema:
        return json.dumps(schema["const"], ensure_ascii=False)
    if "enum" in schema:
        return " | ".join(json.dumps(value, ensure_ascii=False) for value in schema["enum"])
    for union in ("anyOf", "oneOf"):
        if union in schema:
            return " | ".join(dict.fromkeys(type_of(each, indent) for each in schema[union]))
    kind = schema.get("type")
    if isinstance(kind, list):
        return " | ".join(type_of({**schema, "type": each}, indent) for each in kind)
    if kind == "array":
        if "prefixItems" in schema:
            return f"[{', '.join(type_of(each, indent) for each in schema['prefixItems'])}]"
        item = type_of(schema.get("items"), indent)
        return f"({item})[]" if " | " in item else f"{item}[]"
    if kind == "string" and schema.get("format") == "binary":
        return "Blob | NamedFile"
    simple = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}
    if kind in simple:
        return simple[kind]
    if "properties" in schema:
        return "{\n" + "".join(_fields(schema, indent + "  ")) + indent + "}"
    values = schema.get("additionalProperties")
    return f"Record<string, {type_of(values, indent) if isinstance(values, Mapping) and values else 'unknown'}>"


def _fields(schema: Mapping[str, Any], indent: str) -> Iterator[str]:
    required = set(schema.get("required", ()))
    for name, field in schema["properties"].items():
        if field.get("description"):
            yield f"{indent}/** {_comment(field['description'])} */\n"
        key = name if re.fullmatch(r"[A-Za-z_]\w*", name) else json.dumps(name)
        yield f"{indent}{key}{'' if name in required else '?'}: {type_of(field, indent)};\n"


def _comment(text: str) -> str:
    return " ".join(text.split()).replace("*/", "*\\/")


def _reached(document: Mapping[str, Any], of: list[Operation]) -> list[str]:
    """Return the names of the schemas that the operations use, directly or through others."""
    schemas = document["components"]["schemas"]
    waiting = [
        name for operation in of for text in (operation.body, operation.result) for name in re.findall(r"\w+", text)
    ]
    waiting += re.findall(r"schemas/(\w+)", json.dumps([operation.query for operation in of]))
    waiting.append("ProblemBody")
    reached: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in schemas and name not in reached:
            reached.add(name)
            waiting += re.findall(r"schemas/(\w+)", json.dumps(schemas[name]))
    return sorted(reached)


def types(document: Mapping[str, Any]) -> str:
    """Return the text of `operations.d.ts`."""
    found = operations(document)
    lines = [_HEAD, 'import { NamedFile, RequestOptions, ServerEvent, Transport } from "./transport.js";\n']
    for name in _reached(document, found):
        schema = document["components"]["schemas"][name]
        if schema.get("description"):
            lines.append(f"\n/** {_comment(schema['description'])} */\n")
        else:
            lines.append("\n")
        written = type_of(schema)
        is_object = "properties" in schema and written.startswith("{")
        lines.append(f"export interface {name} {written}\n" if is_object else f"export type {name} = {written};\n")
    lines.append("\nexport class Operations extends Transport {\n")
    for operation in found:
        arguments = [f"{_argument(each)}: string" for each in operation.segments]
        if operation.body:
            arguments.append(f"body{'' if operation.body_required else '?'}: {operation.body}")
        if operation.query:
            needed = any(parameter.get("required") for parameter in operation.query)
            arguments.append(f"params{'' if needed else '?'}: {_query_type(operation)}")
        arguments.append("options?: RequestOptions")
        # A required argument cannot follow an optional one.
        if any("?: " in text.split("\n")[0] for text in arguments[:-1]):
            arguments = _required_until_last(arguments)
        result = (
            f"AsyncGenerator<{operation.result}>" if operation.answer in _FOLLOWED else f"Promise<{operation.result}>"
        )
        lines.append(f"  /** {_comment(operation.summary)}: `{operation.method} {operation.path}` */\n")
        lines.append(f"  {operation.name}({', '.join(arguments)}): {result};\n")
    return "".join([*lines, "}\n"])


def _required_until_last(arguments: list[str]) -> list[str]:
    needed = max((at for at, text in enumerate(arguments) if re.match(r"\w+: ", text)), default=-1)
    return [
        re.sub(r"^(\w+)\?: (.*)$", r"\1: \2 | undefined", text, flags=re.DOTALL) if at < needed else text
        for at, text in enumerate(arguments)
    ]


def _query_type(operation: Operation) -> str:
    schema = {
        "properties": {
            each["name"]: {**each["schema"], "description": each.get("description", "")} for each in operation.query
        },
        "required": [each["name"] for each in operation.query if each.get("required")],
    }
    return type_of(schema, "  ")


def code(document: Mapping[str, Any]) -> str:
    """Return the text of `operations.js`."""
    lines = [_HEAD, 'import { Transport } from "./transport.js";\n\n', "const of = encodeURIComponent;\n\n"]
    lines.append("export class Operations extends Transport {\n")
    for operation in operations(document):
        arguments = [_argument(each) for each in operation.segments]
        details = []
        if operation.body:
            arguments.append("body")
            details.append("body")
            if operation.body_kind not in ("application/json",):
                details.append(f'bodyType: "{operation.body_kind}"')
        if operation.query:
            arguments.append("params")
            details.append("params")
        if operation.idempotent:
            details.append("keyed: true")
        if operation.answer == "stream":
            details.append("once: true")
        elif operation.answer != "json":
            details.append(f'answer: "{operation.answer}"')
        arguments.append("options")
        target = re.sub(r"{(\w+)}", lambda found: "${of(" + _argument(found[1]) + ")}", operation.path)
        quote = "`" if "${" in target else '"'
        call = "follow" if operation.answer in _FOLLOWED else "request"
        given = f"{{ {', '.join(details)} }}" if details else "{}"
        lines.append(f"  {operation.name}({', '.join(arguments)}) {{\n")
        lines.append(f'    return this.{call}("{operation.method}", {quote}{target}{quote}, {given}, options);\n  }}\n')
    return "".join([*lines, "}\n"])


def described() -> dict[str, Any]:
    """Return the OpenAPI description of a gateway with the default settings."""
    from api_gateway.app import create_app
    from pipeline.settings import load

    document: dict[str, Any] = json.loads(json.dumps(create_app(load()).openapi()))
    return document


def main() -> None:
    """Write both files."""
    document = described()
    (FOLDER / "operations.js").write_text(code(document), encoding="utf-8")
    (FOLDER / "operations.d.ts").write_text(types(document), encoding="utf-8")


if __name__ == "__main__":
    main()
