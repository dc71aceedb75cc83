"""What the template promises the functions, and they rely on. Each promise lists what breaks it.

Linters know what CloudFormation accepts; whether records survive it they don't know.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import access
import code_of_functions as code
import observing
from cloudformation import Stack

LONGEST_UNDER_KAFKA = 840
"""Seconds that a function behind a Kafka mapping may run at most."""
VISIBILITY_FACTOR = 6
LONGEST_VISIBILITY = 12 * 3600
RETENTION = 14 * 24 * 3600
LARGEST_MESSAGE = 1_048_576
LARGEST_ENVIRONMENT = 4096

LETS_RECORDS_GO = (
    "FunctionResponseTypes",
    "MaximumRetryAttempts",
    "MaximumRecordAgeInSeconds",
    "BisectBatchOnFunctionError",
    "DestinationConfig",
    "FilterCriteria",
)
"""Of a mapping: each of them commits offsets of records that were not written."""

BY_QUEUE = {
    "FunctionName": "<Committer>",
    "EventSourceArn": "<CommitQueue.Arn>",
    "BatchSize": 10,
    "MaximumBatchingWindowInSeconds": 0,
    "FunctionResponseTypes": ["ReportBatchItemFailures"],
    "ScalingConfig": {"MaximumConcurrency": 2},
    "Enabled": True,
}
"""The commit queue's mapping, and no more than this: a filter deletes what it leaves out, without partial responses what
must stay is deleted or what is settled comes again, and what a window gathers is hidden from a committer that runs."""

TABLE_BUCKET = "arn:aws:s3tables:eu-central-1:123456789012:bucket/lake"
CLUSTER = "arn:aws:kafka:eu-central-1:123456789012:cluster/shop/0d4c3f-7"
SECRET = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:"

SCENARIOS: Mapping[str, Mapping[str, str]] = {
    "MSK by IAM into S3 Tables": {
        "Topic": "orders",
        "SettingsUri": "s3://conf/shop/icefall.toml",
        "MskClusterArn": CLUSTER,
        "TableBucketArn": TABLE_BUCKET,
    },
    "self-managed Kafka in a VPC into Glue": {
        "Topic": "orders",
        "Settings": "pipeline = 'shop'\n" * 155,
        "Catalog": "glue",
        "WarehouseBucket": "warehouse",
        "AssumeRoleArns": "arn:aws:iam::210987654321:role/lake, arn:aws:iam::210987654321:role/catalog",
        "KafkaBootstrapServers": "b-1.example.com:9096,b-2.example.com:9096",
        "KafkaSecretArn": f"{SECRET}kafka-a1b2c3",
        "KafkaRootCaSecretArn": f"{SECRET}ca-a1b2c3",
        "KafkaSubnetA": "subnet-0a",
        "KafkaSubnetB": "subnet-0b",
        "KafkaSecurityGroup": "sg-0a",
        "MaximumPollers": "20",
        "WriterConcurrency": "50",
        "AlarmTopicArn": "arn:aws:sns:eu-central-1:123456789012:on-call",
    },
    "MSK by SCRAM into OSS Tables": {
        "Topic": "orders",
        "SettingsUri": "s3://conf/icefall.toml",
        "Catalog": "other",
        "MskClusterArn": CLUSTER,
        "KafkaSecretArn": f"{SECRET}AmazonMSK_shop-a1b2c3",
        "CatalogKeysSecretArn": f"{SECRET}oss-tables-a1b2c3",
        "StoreKeysSecretArn": f"{SECRET}oss-a1b2c3",
        "SecretArns": f"{SECRET}icefall/polaris-??????",
        "ParameterArns": "arn:aws:ssm:eu-central-1:123456789012:parameter/icefall/oss",
        "ConsumerGroupId": "shop",
        "Architecture": "arm64",
    },
    "Kafka over the internet into S3 Tables, committed by queue": {
        "Topic": "orders",
        "SettingsUri": "s3://conf/icefall.toml",
        "KafkaBootstrapServers": "kafka.example.com:9096",
        "KafkaSecretArn": f"{SECRET}kafka-a1b2c3",
        "TableBucketArn": TABLE_BUCKET,
        "CommitterTrigger": "queue",
        "SecretArns": f"{SECRET}icefall/ops-a1b2c3,{SECRET}icefall/queue-a1b2c3",
        "KmsKeyArns": "arn:aws:kms:eu-central-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab",
    },
}
"""What the template is deployed as; between them they take every branch of it."""

Faults = Iterator[str]


def parameters_make_a_stack(stack: Stack) -> Faults:
    """What the scenarios give is accepted."""
    yield from (f"{name} is refused" for name in stack.refused_parameters())
    yield from stack.broken_rules()


def functions_end_in_time(stack: Stack) -> Faults:
    """No function may run longer than Lambda lets a Kafka mapping's function run."""
    for name, function in stack.of_type("AWS::Lambda::Function").items():
        seconds = function["Properties"].get("Timeout", 3)
        if not 60 <= int(seconds) <= LONGEST_UNDER_KAFKA:
            yield f"{name}: a time limit of {seconds} s"


def messages_stay_hidden_long_enough(stack: Stack) -> Faults:
    """Six times the committer's time limit and the time in which a mapping gathers, and no longer than SQS allows."""
    hidden = int(stack.properties("CommitQueue").get("VisibilityTimeout", 30))
    limit = int(stack.properties("Committer")["Timeout"])
    window = sum(int(one.get("MaximumBatchingWindowInSeconds", 0)) for one in _mappings(stack, of_queue=True).values())
    if not VISIBILITY_FACTOR * limit + window <= hidden <= LONGEST_VISIBILITY:
        yield f"messages are hidden for {hidden} s, and the committer may run for {limit} s after {window} s"


def the_queue_keeps_what_it_accepted(stack: Stack) -> Faults:
    """Kafka's offsets are committed by then: nothing expires early, moves away, or goes with the stack."""
    queue = stack.resources["CommitQueue"]
    wanted = {
        "MessageRetentionPeriod": RETENTION,
        "MaximumMessageSize": LARGEST_MESSAGE,
        "SqsManagedSseEnabled": True,
        "RedrivePolicy": None,
        "FifoQueue": None,
    }
    for name, value in wanted.items():
        if (found := queue["Properties"].get(name)) != value:
            yield f"CommitQueue: {name} is {found}, not {value}"
    yield from _kept("CommitQueue", queue)


def mappings_retry_for_ever(stack: Stack) -> Faults:
    """Nothing lets records go that the writer did not accept."""
    for name, mapping in _mappings(stack, of_queue=False).items():
        yield from (f"{name}: {one} is set" for one in LETS_RECORDS_GO if one in mapping)
        kafka = mapping.get("SelfManagedKafkaEventSourceConfig", {})
        if kafka.get("ConsumptionMode", "Stream") != "Stream":
            yield f"{name}: not read partition by partition"


def one_mapping_reads_the_topic(stack: Stack) -> Faults:
    """From a position that exists, by a group of its own, into the writer."""
    mappings = _mappings(stack, of_queue=False)
    if len(mappings) != 1:
        yield f"{len(mappings)} mappings: {sorted(mappings)}"
    for name, mapping in mappings.items():
        yield from (f"{name}: {fault}" for fault in _mapping_faults(mapping, stack))


def _mappings(stack: Stack, *, of_queue: bool) -> dict[str, dict[str, Any]]:
    """The mappings of the commit queue, or all others."""
    all_of_them = {name: one["Properties"] for name, one in stack.of_type("AWS::Lambda::EventSourceMapping").items()}
    return {name: one for name, one in all_of_them.items() if (one.get("EventSourceArn") == "<CommitQueue.Arn>") == of_queue}


def _mapping_faults(mapping: Mapping[str, Any], stack: Stack) -> Faults:
    if mapping["FunctionName"] != "<Writer>":
        yield f"it invokes {mapping['FunctionName']}"
    if mapping["Topics"] != ["orders"]:
        yield f"Lambda takes one topic, and this has {mapping['Topics']}"
    positions = stack.template["Parameters"]["StartingPosition"]["AllowedValues"]
    if mapping["StartingPosition"] != "TRIM_HORIZON" or not set(positions) <= {"TRIM_HORIZON", "LATEST"}:
        yield f"it begins at {mapping['StartingPosition']}, of {positions}"
    if not 1 <= int(mapping["BatchSize"]) <= 10_000 or not 1 <= int(mapping["MaximumBatchingWindowInSeconds"]) <= 300:
        yield "a batch's limits are none of Lambda's"
    self_managed = "SelfManagedEventSource" in mapping
    config = mapping.get("SelfManagedKafkaEventSourceConfig" if self_managed else "AmazonManagedKafkaEventSourceConfig")
    if (config or {}).get("ConsumerGroupId") not in ("shop", "icefall-shop-orders"):
        yield "it has no consumer group of its own"
    if self_managed != ("EventSourceArn" not in mapping):
        yield "it is neither MSK's nor self-managed Kafka's"
    known = {"SASL_SCRAM_512_AUTH", "VPC_SUBNET", "VPC_SECURITY_GROUP", "SERVER_ROOT_CA_CERTIFICATE"}
    if unknown := {one["Type"] for one in mapping.get("SourceAccessConfigurations", [])} - known:
        yield f"it signs in by {unknown}"


def the_committer_is_started_always_and_seldom_in_vain(stack: Stack) -> Faults:
    """By a schedule, whose start is dropped within a minute if it finds no place, and never tried again. Without one a
    queue that was empty for long would stay empty: the writer takes nothing in when the heartbeat is old."""
    schedules = [one["Properties"] for one in stack.of_type("AWS::Scheduler::Schedule").values()]
    if len(schedules) != 1:
        yield f"{len(schedules)} schedules: an empty queue starts nobody"
    wanted = {"MaximumRetryAttempts": 0, "MaximumEventAgeInSeconds": 60}
    configs = stack.of_type("AWS::Lambda::EventInvokeConfig").values()
    asynchronous = [one["Properties"] for one in configs if one["Properties"]["FunctionName"] == "<Committer>"]
    retries = [("the schedule", one["Target"].get("RetryPolicy", {})) for one in schedules]
    for what, found in [("asynchronous events", (asynchronous or [{}])[0]), *retries]:
        if (shown := {key: found.get(key) for key in wanted}) != wanted:
            yield f"{what}: {shown}, not {wanted}"
    for schedule in schedules:
        yield from _schedule_faults(schedule, stack)


def _schedule_faults(schedule: Mapping[str, Any], stack: Stack) -> Faults:
    if schedule["Target"]["Arn"] != "<Committer.Arn>":
        yield f"the schedule starts {schedule['Target']['Arn']}"
    if schedule["State"] != "ENABLED" or schedule["FlexibleTimeWindow"]["Mode"] != "OFF":
        yield "the schedule does not start by the minute"
    trigger, limit = stack.parameter("CommitterTrigger"), int(stack.properties("Committer")["Timeout"])
    found = re.fullmatch(r"rate\((\d+) minutes?\)", schedule["ScheduleExpression"])
    seconds = int(found[1]) * 60 if found else 0
    # By queue a start must not find the one before still running, whose place is then the mapping's. What alarms look at
    # is measured when an invocation begins, and their periods are of five minutes.
    if not (seconds == 60 if trigger == "schedule" else limit < seconds <= 300):
        yield f"{schedule['ScheduleExpression']} is not when the committer has to be started by {trigger}"


def committers_run_beside_each_other_only_by_queue(stack: Stack) -> Faults:
    """One at a time by schedule; by queue as many as the mapping starts and one by schedule, each with a heartbeat."""
    mapped = [int(one.get("ScalingConfig", {}).get("MaximumConcurrency", 5)) for one in _mappings(stack, of_queue=True).values()]
    places = 1 + sum(mapped)
    if (found := stack.properties("Committer").get("ReservedConcurrentExecutions")) != places:
        yield f"{places} committers are started at once, and {found} may run"
    if places > (slots := code.heartbeat_slots()):
        yield f"{places} committers share {slots} heartbeats"


def the_queue_starts_the_committer_where_it_should(stack: Stack) -> Faults:
    """Only when asked for, and so that every message stays until the committer says that it is settled."""
    mappings = _mappings(stack, of_queue=True)
    if len(mappings) != (stack.parameter("CommitterTrigger") == "queue"):
        yield f"{stack.parameter('CommitterTrigger')}: {len(mappings)} mappings of the queue"
    for name, mapping in mappings.items():
        for key in sorted(mapping.keys() | BY_QUEUE.keys()):
            if (found := mapping.get(key)) != BY_QUEUE.get(key):
                yield f"{name}: {key} is {found}, not {BY_QUEUE.get(key)}"


def functions_run_what_sam_builds(stack: Stack) -> Faults:
    """Both on the same runtime and architecture, each from its own binary; x86-64 unless asked otherwise."""
    architecture = stack.parameter("Architecture")
    if stack.template["Parameters"]["Architecture"]["Default"] != "x86_64":
        yield "the default architecture is not x86_64"
    for name in ("Writer", "Committer"):
        properties, build = stack.properties(name), stack.resources[name].get("Metadata", {})
        found = [properties.get("Runtime"), properties.get("Architectures"), properties.get("Handler")]
        if found != ["provided.al2023", [architecture], "bootstrap"]:
            yield f"{name}: {found}"
        if build.get("BuildMethod") != "rust-cargolambda" or build.get("BuildProperties") != {"Binary": name.lower()}:
            yield f"{name}: built as {build}"


def settings_reach_both_functions(stack: Stack) -> Faults:
    """By variables that the settings know, the same for both, within what a function's environment holds."""
    writer, committer = (stack.properties(name)["Environment"]["Variables"] for name in ("Writer", "Committer"))
    if writer != committer:
        yield "writer and committer are told different things"
    if not writer.get("ICEFALL_SETTINGS", "").startswith(("s3://", "inline:pipeline")):
        yield f"ICEFALL_SETTINGS is {writer.get('ICEFALL_SETTINGS')}"
    for variable in writer:
        key = variable.removeprefix("ICEFALL__").lower().replace("__", ".")
        if variable != "ICEFALL_SETTINGS" and key not in code.settings_keys():
            yield f"{variable} is no setting"
    if (writer.get("ICEFALL__OPS__BUCKET"), writer.get("ICEFALL__QUEUE__URL")) != ("<OpsBucket>", "<CommitQueue>"):
        yield "the functions are not told of the stack's own bucket and queue"
    if (size := sum(len(name) + len(value) for name, value in writer.items())) > LARGEST_ENVIRONMENT:
        yield f"the environment has {size} bytes"


def secrets_stay_in_the_secret_manager(stack: Stack) -> Faults:
    """Variables hold references to secrets, and parameters their ARNs."""
    for variable, value in stack.properties("Writer")["Environment"]["Variables"].items():
        if "CREDENTIALS" in variable and not value.startswith(f"{{{{resolve:secretsmanager:{SECRET}"):
            yield f"{variable} is {value}"
    for name, parameter in stack.template["Parameters"].items():
        sounds_secret = any(word in name for word in ("Secret", "Password", "Token", "Keys"))
        if sounds_secret and ":secretsmanager:" not in parameter.get("AllowedPattern", "") and not parameter.get("NoEcho"):
            yield f"parameter {name} can be read by everybody"


def the_ops_bucket_keeps_everything(stack: Stack) -> Faults:
    """What ledgers name never expires, nobody else reads it, and it outlives the stack."""
    bucket = stack.resources["OpsBucket"]
    properties = bucket["Properties"]
    yield from _kept("OpsBucket", bucket)
    if properties.get("VersioningConfiguration", {}).get("Status") != "Enabled":
        yield "a deletion by hand can't be undone"
    if not properties.get("BucketEncryption"):
        yield "it is not encrypted"
    public = properties.get("PublicAccessBlockConfiguration", {})
    if [public.get(one) for one in ("BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets")] != [True] * 4:
        yield "it can be made public"
    for rule in properties.get("LifecycleConfiguration", {}).get("Rules", []):
        if rule.keys() - {"Id", "Status", "Prefix", "NoncurrentVersionExpiration"} or rule.get("Prefix") != "heartbeat/":
            yield f"lifecycle rule {rule.get('Id')} reaches more than former heartbeats"


def _kept(name: str, resource: Mapping[str, Any]) -> Faults:
    for policy in ("DeletionPolicy", "UpdateReplacePolicy"):
        if resource.get(policy) != "Retain":
            yield f"{name}: {policy} is {resource.get(policy)}"


Promise = Callable[[Stack], Faults]

PROMISES: Mapping[str, Promise] = {
    promise.__name__: promise
    for promise in (
        parameters_make_a_stack,
        functions_end_in_time,
        messages_stay_hidden_long_enough,
        the_queue_keeps_what_it_accepted,
        mappings_retry_for_ever,
        one_mapping_reads_the_topic,
        the_committer_is_started_always_and_seldom_in_vain,
        committers_run_beside_each_other_only_by_queue,
        the_queue_starts_the_committer_where_it_should,
        functions_run_what_sam_builds,
        settings_reach_both_functions,
        secrets_stay_in_the_secret_manager,
        the_ops_bucket_keeps_everything,
        access.functions_may_do_what_they_call_and_no_more,
        access.keys_open_secrets_and_nothing_else,
        access.the_operator_names_one_by_one,
        access.nobody_else_is_let_in,
        observing.logs_are_json_and_kept_for_a_while,
        observing.alarms_rest_on_metrics_that_somebody_measures,
        observing.alarms_tell_somebody_what_to_do,
        observing.what_calls_for_an_alarm_has_one,
        observing.alarms_look_back_to_when_messages_came_last,
        observing.the_dashboard_shows_metrics_that_somebody_measures,
    )
}


def faults(template: Mapping[str, Any], promise: str) -> list[str]:
    """What breaks this promise, over all scenarios."""
    stacks = {name: Stack(template, given) for name, given in SCENARIOS.items()}
    return [f"{scenario}: {fault}" for scenario, stack in stacks.items() for fault in PROMISES[promise](stack)]
