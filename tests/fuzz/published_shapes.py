#!/usr/bin/env python3
"""The git host's published OpenAPI description, for tests that hold something of ours against it.

  published_shapes.py check DESCRIPTION ANSWERS   every answer that was recorded fits what is published for it
  published_shapes.py make DESCRIPTION            answers as the description allows them, one line of JSON each, for a reader to read

The description is no part of this repository: `npm pack @octokit/openapi`, `generated/api.github.com.json` in it. Needs
`jsonschema` (`pip install jsonschema`). Called by the tests of that name in tests/demo and plugins/githost, which say how.
"""

import json
import random
import re
import sys

# What the guest reads, and by which operation the git host answers it.
READ = {
    "user": ("get", "/user", "200"),
    "app": ("get", "/app", "200"),
    "installations": ("get", "/app/installations", "200"),
    "token": ("post", "/app/installations/{installation_id}/access_tokens", "201"),
    "installed": ("get", "/installation/repositories", "200"),
    "repositories": ("get", "/user/repos", "200"),
    "repository": ("get", "/repos/{owner}/{repo}", "200"),
    "branches": ("get", "/repos/{owner}/{repo}/branches", "200"),
    "branch": ("get", "/repos/{owner}/{repo}/branches/{branch}", "200"),
    "commit": ("get", "/repos/{owner}/{repo}/commits/{ref}", "200"),
    "tree": ("get", "/repos/{owner}/{repo}/git/trees/{tree_sha}", "200"),
    "contents": ("get", "/repos/{owner}/{repo}/contents/{path}", "200"),
}
# Refusals that any operation may answer, though not every operation lists them.
ANYWHERE = {"401", "403", "429"}
DEEPEST = 12


class Description:
    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            self.document = json.load(file)

    def resolve(self, part):
        while isinstance(part, dict) and "$ref" in part:
            target = self.document
            for step in part["$ref"].lstrip("#/").split("/"):
                target = target[step.replace("~1", "/").replace("~0", "~")]
            part = target
        return part

    def schema(self, method, path, status):
        """What an answer has to fit; None: nothing is said of its body. A status that is not published is a KeyError."""
        responses = self.document["paths"][path][method]["responses"]
        if status not in responses and status in ANYWHERE:
            return {"$ref": "#/components/schemas/basic-error"}
        content = self.resolve(responses[status]).get("content", {})
        return content["application/json"]["schema"] if "application/json" in content else None


def as_json_schema(part):
    """OpenAPI 3.0 writes `nullable` where JSON Schema has a further type."""
    if isinstance(part, list):
        return [as_json_schema(one) for one in part]
    if not isinstance(part, dict):
        return part
    part = {key: as_json_schema(value) for key, value in part.items()}
    if part.pop("nullable", False) is True:
        if "type" in part:
            part["type"] = [part["type"], "null"]
            if "enum" in part:
                part["enum"] = part["enum"] + [None]
        else:
            part = {"anyOf": [part, {"type": "null"}]}
    return part


def formats():
    from jsonschema import FormatChecker

    checker = FormatChecker(formats=())
    time = re.compile(r"^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)$")
    checker.checks("date-time")(lambda value: not isinstance(value, str) or bool(time.match(value)))
    checker.checks("uri")(lambda value: not isinstance(value, str) or bool(re.match(r"^[a-z][a-z0-9+.-]*:\S+$", value)))
    return checker


def check(description, recorded):
    from jsonschema import Draft4Validator
    from referencing import Registry, Resource
    from referencing.jsonschema import DRAFT4

    everything = as_json_schema(description.document)
    registry = Registry().with_resource("urn:description", Resource(contents=everything, specification=DRAFT4))

    def absolute(part):
        if isinstance(part, list):
            return [absolute(one) for one in part]
        if not isinstance(part, dict):
            return part
        return {key: f"urn:description{value}" if key == "$ref" and isinstance(value, str) else absolute(value) for key, value in part.items()}

    wrong, count = 0, 0
    for line in open(recorded, encoding="utf-8"):
        answer = json.loads(line)
        name = f"{answer['method'].upper()} {answer['path']} {answer['status']} ({answer['what']})"
        count += 1
        try:
            schema = description.schema(answer["method"], answer["path"], str(answer["status"]))
        except KeyError:
            print(f"WRONG {name}: this status is not published for it")
            wrong += 1
            continue
        if schema is None:
            print(f"ok    {name}: no body is published")
            continue
        validator = Draft4Validator(absolute(as_json_schema(schema)), registry=registry, format_checker=formats())
        faults = list(validator.iter_errors(answer["body"]))
        for fault in faults[:8]:
            print(f"WRONG {name}: /{'/'.join(map(str, fault.absolute_path))}: {fault.message[-160:]}")
            for cause in (fault.context or [])[:4]:
                print(f"        {'/'.join(map(str, cause.absolute_path))}: {cause.message[-120:]}")
        wrong += bool(faults)
        if not faults:
            print(f"ok    {name}")
    print(f"{count} answers, {wrong} of them wrong")
    return 1 if wrong or not count else 0


class Maker:
    """Makes what a schema allows: `least` leaves out and nulls whatever it may, `most` neither; else chance decides."""

    def __init__(self, description, how, seed=0):
        self.description, self.how, self.random = description, how, random.Random(seed)

    def does(self, likely):
        return likely if self.how in ("least", "most") else self.random.random() < 0.5

    def make(self, schema, name="", depth=0):
        schema = self.description.resolve(schema)
        if schema.get("nullable") and (depth > DEEPEST or self.does(self.how == "least")):
            return None
        for word in ("oneOf", "anyOf"):
            if word in schema:
                choices = schema[word]
                at = {"least": 0, "most": len(choices) - 1}.get(self.how, self.random.randrange(len(choices)))
                return self.make(choices[at], name, depth + 1)
        if "allOf" in schema:
            made = [self.make(part, name, depth + 1) for part in schema["allOf"]]
            return {key: value for part in made if isinstance(part, dict) for key, value in part.items()}
        if "enum" in schema:
            return self.random.choice(schema["enum"])
        kind = schema.get("type", "object" if "properties" in schema else "")
        if kind == "object":
            required = schema.get("required", [])
            wanted = [key for key in schema.get("properties", {}) if key in required or (depth < DEEPEST and self.does(self.how == "most"))]
            return {key: self.make(schema["properties"][key], key, depth + 1) for key in wanted}
        if kind == "array":
            count = {"least": 0, "most": 2}.get(self.how, self.random.randrange(3))
            return [self.make(schema.get("items", {}), name, depth + 1) for _ in range(0 if depth > DEEPEST else count)]
        if kind == "integer":
            return self.random.choice([0, 1, 2**31, 2**53 - 1])
        if kind == "number":
            return self.random.choice([0, 0.5])
        if kind == "boolean":
            return self.random.random() < 0.5
        return self.text(schema, name)

    def text(self, schema, name):
        if name == "sha":
            return self.random.randbytes(20).hex()
        if schema.get("format") == "date-time":
            return self.random.choice(["2007-10-29T02:42:39.000-07:00", "2026-01-01T00:00:00Z"])
        if schema.get("format") == "uri":
            return "https://example.com/x"
        return self.random.choice(["", "a", "Ünï", "x/y", "\u0000\u001b[31m", "0"])


def make(description):
    for name, (method, path, status) in READ.items():
        schema = description.schema(method, path, status)
        for how, seeds in (("least", 1), ("most", 1), ("any", 400)):
            for seed in range(seeds):
                print(json.dumps({"what": name, "answer": Maker(description, how, seed).make(schema)}))
    return 0


if __name__ == "__main__":
    what, path = sys.argv[1:3]
    sys.exit(check(Description(path), sys.argv[3]) if what == "check" else make(Description(path)))
