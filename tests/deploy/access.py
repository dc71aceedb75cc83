"""Promises on permissions: for every call in the functions' sources, and for nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import code_of_functions as code
import permissions
from cloudformation import Stack

Grants = set[tuple[str, str]]
"""Pairs of action and resource."""


def granted(role: Mapping[str, Any]) -> Grants:
    """What a role may do."""
    grants: Grants = set()
    for policy in role["Properties"].get("Policies", []):
        for statement in policy["PolicyDocument"]["Statement"]:
            if statement["Effect"] == "Allow":
                grants |= {(action, on) for action in _list(statement["Action"]) for on in _list(statement["Resource"])}
    return grants


def needed(stack: Stack, function: str) -> Grants:
    """What a function has to be permitted, by what its source calls."""
    name = function.capitalize()
    grants = {("logs:CreateLogStream", f"<{name}Log.Arn>"), ("logs:PutLogEvents", f"<{name}Log.Arn>")}
    grants |= {(action, "<CommitQueue.Arn>") for action in permissions.queue(function)}
    grants |= _ops_bucket(function) | _settings(stack) | _tables(stack, function)
    grants |= {(action, arn) for action, name in permissions.references(function).items() for arn in stack.listed(name)}
    return grants | (_mapping(stack) if function == "writer" else _queue_mapping(stack))


def _ops_bucket(function: str) -> Grants:
    layout = code.ops_bucket_layout()
    grants = {("s3:ListBucket", "<OpsBucket.Arn>")}
    for action, how in (("s3:GetObject", "read"), ("s3:PutObject", "write")):
        grants |= {(action, f"<OpsBucket.Arn>/{prefix}/*") for prefix in layout[how][function]}
    return grants


def _settings(stack: Stack) -> Grants:
    uri = stack.parameter("SettingsUri")
    return {("s3:GetObject", f"arn:aws:s3:::{uri.removeprefix('s3://')}")} if uri else set()


def _tables(stack: Stack, function: str) -> Grants:
    kind, store = stack.parameter("Catalog"), permissions.table_store(function)
    if kind == "s3-tables":
        return _s3_tables(stack.parameter("TableBucketArn"), permissions.catalog(function, kind), store)
    grants: Grants = set()
    if kind == "glue":
        below = ("catalog", "database/*", "table/*/*")
        arns = [f"arn:aws:glue:eu-central-1:123456789012:{one}" for one in below]
        grants |= {(action, arn) for action in permissions.catalog(function, kind) for arn in arns}
    if bucket := stack.parameter("WarehouseBucket"):
        grants |= {(f"s3:{one.capitalize()}Object", f"arn:aws:s3:::{bucket}/*") for one in store}
        # Without it a file that is gone looks like one that is denied.
        grants |= {("s3:ListBucket", f"arn:aws:s3:::{bucket}")} if "get" in store else set()
    return grants


def _s3_tables(bucket: str, actions: set[str], store: set[str]) -> Grants:
    actions = actions | {f"s3tables:{one.capitalize()}TableData" for one in store}
    of_bucket = {"s3tables:GetTableBucket", "s3tables:GetNamespace", "s3tables:CreateNamespace", "s3tables:CreateTable"}
    of_tables = actions - of_bucket | actions & {"s3tables:CreateTable"}
    return {(one, bucket) for one in actions & of_bucket} | {(one, f"{bucket}/table/*") for one in of_tables}


def _mapping(stack: Stack) -> Grants:
    grants: Grants = set()
    cluster, topic = stack.parameter("MskClusterArn"), stack.parameter("Topic")
    group = stack.parameter("ConsumerGroupId") or f"icefall-shop-{topic}"
    if cluster or stack.parameter("KafkaSubnetA"):
        grants |= {(action, "*") for action in permissions.NETWORK}
    if cluster:
        below = {"topic": topic, "group": group}
        inside = [cluster.replace(":cluster/", f":{kind}/") + f"/{name}" for kind, name in below.items()]
        of_cluster = {one for one in permissions.MAPPING if not one.endswith(("Group", "Topic", "Data"))}
        grants |= {(action, cluster) for action in of_cluster}
        grants |= {(action, one) for action in permissions.MAPPING - of_cluster for one in inside}
    secrets = [stack.parameter(name) for name in ("KafkaSecretArn", "KafkaRootCaSecretArn")]
    return grants | {("secretsmanager:GetSecretValue", secret) for secret in secrets if secret}


def _queue_mapping(stack: Stack) -> Grants:
    by_queue = stack.parameter("CommitterTrigger") == "queue"
    return {(action, "<CommitQueue.Arn>") for action in permissions.QUEUE_MAPPING} if by_queue else set()


def functions_may_do_what_they_call_and_no_more(stack: Stack) -> Iterator[str]:
    """Each function has a role of its own that allows exactly what its source calls."""
    for function in code.FUNCTIONS:
        name = f"{function.capitalize()}Role"
        if stack.properties(function.capitalize()).get("Role") != f"<{name}.Arn>":
            yield f"{function} has no role of its own"
        found, wanted = granted(stack.resources[name]), needed(stack, function)
        yield from (f"{name} lacks {action} on {on}" for action, on in sorted(wanted - found))
        yield from (f"{name} needs no {action} on {on}" for action, on in sorted(found - wanted))
    if granted(stack.resources["ScheduleRole"]) != {("lambda:InvokeFunction", "<Committer.Arn>")}:
        yield "the schedule's role does not start the committer alone"


def keys_open_secrets_and_nothing_else(stack: Stack) -> Iterator[str]:
    """Whoever may decrypt may do it only through the services that keep secrets."""
    wanted = {"StringLike": {"kms:ViaService": ["secretsmanager.*", "ssm.*"]}}
    for name, role in stack.of_type("AWS::IAM::Role").items():
        for policy in role["Properties"].get("Policies", []):
            for statement in policy["PolicyDocument"]["Statement"]:
                uses_keys = any(action.startswith("kms:") for action in _list(statement["Action"]))
                if uses_keys and statement.get("Condition") != wanted:
                    yield f"{name} decrypts whatever it likes: {statement.get('Condition')}"


def the_operator_names_one_by_one(stack: Stack) -> Iterator[str]:
    """Each secret, parameter, key and role by its ARN; nothing that stands for several, and nothing of another kind."""
    arns = {
        "SecretArns": "arn:aws:secretsmanager:eu-central-1:123456789012:secret:icefall/store-a1b2c3",
        "ParameterArns": "arn:aws-cn:ssm:cn-north-1:123456789012:parameter/icefall/store.secret",
        "KmsKeyArns": "arn:aws:kms:eu-central-1:123456789012:key/mrk-1234abcd12ab34cd56ef1234567890ab",
        "AssumeRoleArns": "arn:aws:iam::123456789012:role/lake/icefall@shop",
    }
    alias = "arn:aws:kms:eu-central-1:123456789012:alias/icefall"
    for name, arn in arns.items():
        account = arn.index("123456789012")
        several = ["*", f"{arn}*", f"{arn[:account]}*", arn.replace("123456789012", "*"), arn[: account + 12] + ":*"]
        others = [one for one in arns.values() if one != arn]
        yield from (f"{name} refuses {one!r}" for one in ("", arn, f"{arn}, {arn}") if not stack.accepts(name, one))
        yield from (f"{name} takes {one}" for one in (*several, *others, alias) if stack.accepts(name, one))
        yield from (f"{name} takes {one} beside others" for one in several if stack.accepts(name, f"{arn},{one}"))
    if not stack.accepts("SecretArns", arns["SecretArns"].replace("a1b2c3", "??????")):
        yield "SecretArns refuses a secret that may be made anew"


def nobody_else_is_let_in(stack: Stack) -> Iterator[str]:
    """Roles are for their services, resource policies only deny, and only what they must."""
    services = {"WriterRole": "lambda", "CommitterRole": "lambda", "ScheduleRole": "scheduler"}
    for name, role in stack.of_type("AWS::IAM::Role").items():
        trusted = [one["Principal"] for one in role["Properties"]["AssumeRolePolicyDocument"]["Statement"]]
        if trusted != [{"Service": f"{services.get(name)}.amazonaws.com"}]:
            yield f"{name} trusts {trusted}"
        if "ManagedPolicyArns" in role["Properties"]:
            yield f"{name} has managed policies, which allow more than is called"
    for kind in ("AWS::S3::BucketPolicy", "AWS::SQS::QueuePolicy"):
        policies = stack.of_type(kind)
        if not policies:
            yield f"there is no {kind}: unencrypted connections are let in"
        for name, policy in policies.items():
            for statement in policy["Properties"]["PolicyDocument"]["Statement"]:
                if statement["Effect"] != "Deny" or statement.get("Condition") != {"Bool": {"aws:SecureTransport": "false"}}:
                    yield f"{name}: {statement.get('Sid')} is not about unencrypted connections"


def _list(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value
