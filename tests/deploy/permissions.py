"""Which permissions the functions need, derived from the calls in their sources.

Catalog operations to actions: AWS's pages on the Iceberg REST endpoints of S3 Tables
(https://docs.aws.amazon.com/AmazonS3/latest/userguide/s3-tables-integrating-open-source.html) and Glue
(https://docs.aws.amazon.com/glue/latest/dg/iceberg-rest-apis.html).
"""

from __future__ import annotations

import code_of_functions as code

S3_TABLES = {
    "load_table": {"s3tables:GetTableMetadataLocation", "s3tables:GetTableData"},
    "create_table": {"s3tables:CreateTable", "s3tables:PutTableData"},
    "commit": {"s3tables:UpdateTableMetadataLocation", "s3tables:PutTableData", "s3tables:GetTableData"},
    "create_namespace": {"s3tables:CreateNamespace"},
    "load_namespace": {"s3tables:GetNamespace"},
    "namespace_exists": {"s3tables:GetNamespace"},
    "list_tables": {"s3tables:ListTables"},
}
GLUE = {
    "load_table": {"glue:GetTable"},
    "create_table": {"glue:CreateTable"},
    "commit": {"glue:UpdateTable"},
    "create_namespace": {"glue:CreateDatabase"},
    "load_namespace": {"glue:GetDatabase"},
    "namespace_exists": {"glue:GetDatabase"},
    "list_tables": {"glue:GetTables"},
}
QUEUE = {
    "send": {"sqs:SendMessage"},
    # Whoever receives must be able to let go of what it has, and to keep it.
    "receive": {"sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility"},
    "delete": {"sqs:DeleteMessage"},
    "hide": {"sqs:ChangeMessageVisibility"},
    "retention": {"sqs:GetQueueAttributes"},
}
STORE = {"put": {"put"}, "get": {"get"}, "get_range": {"get"}, "head": {"get"}, "new_input": {"get"}, "new_output": {"put"}}

QUEUE_MAPPING = {"sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"}
"""What a mapping of the queue needs in its function's name
(https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html)."""

NAMED_BY_THE_OPERATOR = {
    "secretsmanager:GetSecretValue": "SecretArns",
    "ssm:GetParameter": "ParameterArns",
    "kms:Decrypt": "KmsKeyArns",
    "sts:AssumeRole": "AssumeRoleArns",
}
"""What the settings refer to, with the parameter that lists it. Whatever is encrypted with an operator's own key, the
reader decrypts (https://docs.aws.amazon.com/secretsmanager/latest/userguide/security-encryption.html,
https://docs.aws.amazon.com/systems-manager/latest/userguide/ps-restrict-decryption.html)."""

MAPPING = {
    "kafka:DescribeCluster",
    "kafka:DescribeClusterV2",
    "kafka:GetBootstrapBrokers",
    "kafka-cluster:Connect",
    "kafka-cluster:DescribeClusterDynamicConfiguration",
    "kafka-cluster:AlterGroup",
    "kafka-cluster:DescribeGroup",
    "kafka-cluster:DescribeTopic",
    "kafka-cluster:ReadData",
}
"""What an MSK mapping needs in its function's name with IAM sign-in
(https://docs.aws.amazon.com/lambda/latest/dg/msk-cluster-permissions.html)."""

NETWORK = {
    "ec2:CreateNetworkInterface",
    "ec2:DeleteNetworkInterface",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeSubnets",
    "ec2:DescribeVpcs",
}
"""What any mapping whose brokers are in a VPC needs. They know no resource but `*`."""


def _of(called: set[str], actions: dict[str, set[str]], what: str) -> set[str]:
    if unknown := called - actions.keys():
        raise AssertionError(f"{what}: no permission is known for {sorted(unknown)}; look it up and add it here")
    return set().union(*(actions[call] for call in called))


def queue(function: str) -> set[str]:
    return _of(code.calls(function, "queue"), QUEUE, f"{function}'s queue")


def references(function: str) -> dict[str, str]:
    """What following the settings' references needs, with the parameter that lists what they name."""
    if not code.reads_settings(function):
        return {}
    needed = code.secret_actions() | ({"kms:Decrypt"} if code.secret_actions() else set())
    needed |= {"sts:AssumeRole"} if code.assumes_roles() else set()
    return {action: NAMED_BY_THE_OPERATOR[action] for action in needed}


def catalog(function: str, kind: str) -> set[str]:
    called = code.calls(function, "catalog")
    if kind == "s3-tables":
        return {"s3tables:GetTableBucket"} | _of(called, S3_TABLES, f"{function}'s catalog")
    return {"glue:GetCatalog"} | _of(called, GLUE, f"{function}'s catalog")


def table_store(function: str) -> set[str]:
    """`put` and `get`, as far as the function reads and writes tables' objects."""
    used = _of(code.object_calls(function), STORE, f"{function}'s table store")
    return used | ({"put", "get"} if code.uses_file_io(function) else set())
