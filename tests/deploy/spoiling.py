"""Ways to spoil the template, each with the promise that must notice.

Every one is a mistake that somebody makes in good faith: a limit that a linter accepts, a permission that was
forgotten, a metric that was renamed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import promises
import access
import observing

Template = dict[str, Any]
Spoil = Callable[[Template], None]

SPOILED: list[tuple[str, Spoil]] = []


def breaks(promise: promises.Promise) -> Callable[[Spoil], Spoil]:
    """Notes which promise the decorated change breaks."""

    def noted(spoil: Spoil) -> Spoil:
        SPOILED.append((promise.__name__, spoil))
        return spoil

    return noted


def _properties(template: Template, name: str) -> dict[str, Any]:
    return template["Resources"][name]["Properties"]


def _statement(template: Template, role: str, sid: str) -> dict[str, Any]:
    """A statement of a role, conditional or not."""
    for one in _statements(template, role):
        statement = one["Fn::If"][1] if "Fn::If" in one else one
        if statement.get("Sid") == sid:
            return statement
    raise KeyError(sid)


def _statements(template: Template, role: str) -> list[dict[str, Any]]:
    return _properties(template, role)["Policies"][0]["PolicyDocument"]["Statement"]


def _drop(template: Template, role: str, sid: str) -> None:
    statements = _statements(template, role)
    statements.remove(next(one for one in statements if sid in (one.get("Sid"), one.get("Fn::If", [0, {}])[1].get("Sid"))))


def _setting(name: str, value: Any) -> Spoil:
    """A mapping's property that lets records go, on both kinds of mapping."""

    def spoil(template: Template) -> None:
        for mapping in ("MskMapping", "SelfManagedKafkaMapping"):
            _properties(template, mapping)[name] = value

    spoil.__name__ = name
    return spoil


for _name, _value in {
    "FunctionResponseTypes": ["ReportBatchItemFailures"],
    "MaximumRetryAttempts": 100,
    "MaximumRecordAgeInSeconds": 604800,
    "BisectBatchOnFunctionError": True,
    "DestinationConfig": {"OnFailure": {"Destination": {"Fn::GetAtt": ["CommitQueue", "Arn"]}}},
    "FilterCriteria": {"Filters": [{"Pattern": '{"value": {"country": ["de"]}}'}]},
}.items():
    breaks(promises.mappings_retry_for_ever)(_setting(_name, _value))


@breaks(promises.mappings_retry_for_ever)
def a_share_group(template: Template) -> None:
    _properties(template, "SelfManagedKafkaMapping")["SelfManagedKafkaEventSourceConfig"]["ConsumptionMode"] = "Queue"


@breaks(promises.parameters_make_a_stack)
def a_pattern_that_takes_no_msk_cluster(template: Template) -> None:
    template["Parameters"]["MskClusterArn"]["AllowedPattern"] = "^$|^arn:aws:kafka:us-east-1:"


@breaks(promises.functions_end_in_time)
def a_writer_of_fifteen_minutes(template: Template) -> None:
    _properties(template, "Writer")["Timeout"] = 900


@breaks(promises.functions_end_in_time)
def no_time_limit(template: Template) -> None:
    del _properties(template, "Committer")["Timeout"]


@breaks(promises.messages_stay_hidden_long_enough)
def a_longer_committer(template: Template) -> None:
    _properties(template, "Committer")["Timeout"] = 240


@breaks(promises.messages_stay_hidden_long_enough)
def the_queues_default_visibility(template: Template) -> None:
    del _properties(template, "CommitQueue")["VisibilityTimeout"]


@breaks(promises.messages_stay_hidden_long_enough)
def a_window_that_is_forgotten(template: Template) -> None:
    _properties(template, "CommitQueueMapping")["MaximumBatchingWindowInSeconds"] = 60


@breaks(promises.the_queue_keeps_what_it_accepted)
def the_queues_default_retention(template: Template) -> None:
    del _properties(template, "CommitQueue")["MessageRetentionPeriod"]


@breaks(promises.the_queue_keeps_what_it_accepted)
def messages_of_former_size(template: Template) -> None:
    _properties(template, "CommitQueue")["MaximumMessageSize"] = 262_144


@breaks(promises.the_queue_keeps_what_it_accepted)
def a_dead_letter_queue(template: Template) -> None:
    _properties(template, "CommitQueue")["RedrivePolicy"] = {"deadLetterTargetArn": "arn", "maxReceiveCount": 5}


@breaks(promises.the_queue_keeps_what_it_accepted)
def a_queue_that_goes_with_the_stack(template: Template) -> None:
    del template["Resources"]["CommitQueue"]["DeletionPolicy"]


@breaks(promises.one_mapping_reads_the_topic)
def a_position_that_does_not_exist(template: Template) -> None:
    _properties(template, "MskMapping")["StartingPosition"] = "FOO"


@breaks(promises.one_mapping_reads_the_topic)
def a_position_to_choose_that_does_not_exist(template: Template) -> None:
    template["Parameters"]["StartingPosition"]["AllowedValues"].append("EARLIEST")


@breaks(promises.one_mapping_reads_the_topic)
def two_topics_in_one_mapping(template: Template) -> None:
    _properties(template, "MskMapping")["Topics"].append("clicks")


@breaks(promises.one_mapping_reads_the_topic)
def no_consumer_group(template: Template) -> None:
    del _properties(template, "SelfManagedKafkaMapping")["SelfManagedKafkaEventSourceConfig"]


@breaks(promises.one_mapping_reads_the_topic)
def a_mapping_without_condition(template: Template) -> None:
    del template["Resources"]["SelfManagedKafkaMapping"]["Condition"]


@breaks(promises.one_mapping_reads_the_topic)
def records_for_the_committer(template: Template) -> None:
    _properties(template, "MskMapping")["FunctionName"] = {"Ref": "Committer"}


@breaks(promises.the_committer_is_started_always_and_seldom_in_vain)
def lambdas_own_retries(template: Template) -> None:
    del _properties(template, "Committer")["EventInvokeConfig"]


@breaks(promises.the_committer_is_started_always_and_seldom_in_vain)
def events_of_an_hour_ago(template: Template) -> None:
    _properties(template, "Committer")["EventInvokeConfig"]["MaximumEventAgeInSeconds"] = 3600


@breaks(promises.the_committer_is_started_always_and_seldom_in_vain)
def a_schedule_that_tries_again(template: Template) -> None:
    _properties(template, "CommitterSchedule")["Target"]["RetryPolicy"]["MaximumRetryAttempts"] = 185


@breaks(promises.the_committer_is_started_always_and_seldom_in_vain)
def a_schedule_that_starts_the_writer(template: Template) -> None:
    _properties(template, "CommitterSchedule")["Target"]["Arn"] = {"Fn::GetAtt": ["Writer", "Arn"]}


@breaks(promises.committers_run_beside_each_other_only_by_queue)
def committers_side_by_side(template: Template) -> None:
    del _properties(template, "Committer")["ReservedConcurrentExecutions"]


@breaks(promises.committers_run_beside_each_other_only_by_queue)
def one_place_for_the_queues_two(template: Template) -> None:
    _properties(template, "Committer")["ReservedConcurrentExecutions"]["Fn::If"][1] = 1


@breaks(promises.committers_run_beside_each_other_only_by_queue)
def more_committers_than_heartbeats(template: Template) -> None:
    _properties(template, "CommitQueueMapping")["ScalingConfig"]["MaximumConcurrency"] = 10
    _properties(template, "Committer")["ReservedConcurrentExecutions"]["Fn::If"][1] = {"Fn::If": ["StartedByQueue", 11, 1]}


@breaks(promises.the_committer_is_started_always_and_seldom_in_vain)
def nobody_who_puts_the_heartbeat(template: Template) -> None:
    template["Conditions"]["StartedBySchedule"] = {"Fn::Not": [{"Condition": "StartedByQueue"}]}
    template["Resources"]["CommitterSchedule"]["Condition"] = "StartedBySchedule"


@breaks(promises.the_committer_is_started_always_and_seldom_in_vain)
def the_queues_place_taken_by_schedule(template: Template) -> None:
    _properties(template, "CommitterSchedule")["ScheduleExpression"] = "rate(1 minute)"


@breaks(promises.the_committer_is_started_always_and_seldom_in_vain)
def a_schedule_of_five_minutes_without_the_queue(template: Template) -> None:
    _properties(template, "CommitterSchedule")["ScheduleExpression"] = "rate(5 minutes)"


@breaks(promises.the_queue_starts_the_committer_where_it_should)
def the_queue_beside_every_schedule(template: Template) -> None:
    del template["Resources"]["CommitQueueMapping"]["Condition"]


@breaks(promises.the_queue_starts_the_committer_where_it_should)
def a_trigger_that_starts_nothing(template: Template) -> None:
    del template["Resources"]["CommitQueueMapping"]


@breaks(promises.the_queue_starts_the_committer_where_it_should)
def all_that_must_stay_deleted(template: Template) -> None:
    del _properties(template, "CommitQueueMapping")["FunctionResponseTypes"]


@breaks(promises.the_queue_starts_the_committer_where_it_should)
def as_many_committers_as_lambda_likes(template: Template) -> None:
    del _properties(template, "CommitQueueMapping")["ScalingConfig"]


@breaks(promises.the_queue_starts_the_committer_where_it_should)
def messages_that_wait_for_others(template: Template) -> None:
    _properties(template, "CommitQueueMapping").update(BatchSize=10000, MaximumBatchingWindowInSeconds=300)


@breaks(promises.the_queue_starts_the_committer_where_it_should)
def a_filter_that_deletes_messages(template: Template) -> None:
    _properties(template, "CommitQueueMapping")["FilterCriteria"] = {"Filters": [{"Pattern": '{"body": {"table": ["a.b"]}}'}]}


@breaks(promises.the_queue_starts_the_committer_where_it_should)
def the_queue_wakes_the_writer(template: Template) -> None:
    _properties(template, "CommitQueueMapping")["FunctionName"] = {"Ref": "Writer"}


@breaks(promises.functions_run_what_sam_builds)
def both_the_same_binary(template: Template) -> None:
    template["Resources"]["Committer"]["Metadata"]["BuildProperties"]["Binary"] = "writer"


@breaks(promises.functions_run_what_sam_builds)
def an_older_runtime(template: Template) -> None:
    template["Globals"]["Function"]["Runtime"] = "provided.al2"


@breaks(promises.functions_run_what_sam_builds)
def arm_by_default(template: Template) -> None:
    template["Parameters"]["Architecture"]["Default"] = "arm64"


@breaks(promises.settings_reach_both_functions)
def a_misspelt_setting(template: Template) -> None:
    variables = template["Globals"]["Function"]["Environment"]["Variables"]
    variables["ICEFALL__QUEUE__URI"] = variables.pop("ICEFALL__QUEUE__URL")


@breaks(promises.settings_reach_both_functions)
def settings_for_one_function_alone(template: Template) -> None:
    _properties(template, "Writer")["Environment"] = {"Variables": {"ICEFALL__COMMITTER__LINGER": "1s"}}


@breaks(promises.settings_reach_both_functions)
def a_bucket_that_is_none_of_the_stacks(template: Template) -> None:
    template["Globals"]["Function"]["Environment"]["Variables"]["ICEFALL__OPS__BUCKET"] = "icefall-ops"


@breaks(promises.settings_reach_both_functions)
def more_than_an_environment_holds(template: Template) -> None:
    template["Globals"]["Function"]["Environment"]["Variables"]["ICEFALL__PIPELINE"] = "p" * 2000


@breaks(promises.secrets_stay_in_the_secret_manager)
def a_secret_as_a_parameter(template: Template) -> None:
    template["Parameters"]["StoreSecretAccessKey"] = {"Type": "String", "Default": ""}


@breaks(promises.secrets_stay_in_the_secret_manager)
def a_secret_in_a_variable(template: Template) -> None:
    variables = template["Globals"]["Function"]["Environment"]["Variables"]
    variables["ICEFALL__STORE__CREDENTIALS__SECRET_ACCESS_KEY"] = {"Ref": "StoreKeysSecretArn"}


@breaks(promises.the_ops_bucket_keeps_everything)
def segments_that_expire(template: Template) -> None:
    rules = _properties(template, "OpsBucket")["LifecycleConfiguration"]["Rules"]
    rules.append({"Id": "tidy", "Status": "Enabled", "Prefix": "segments/", "ExpirationInDays": 90})


@breaks(promises.the_ops_bucket_keeps_everything)
def former_versions_that_expire(template: Template) -> None:
    del _properties(template, "OpsBucket")["LifecycleConfiguration"]["Rules"][0]["Prefix"]


@breaks(promises.the_ops_bucket_keeps_everything)
def a_bucket_that_goes_with_the_stack(template: Template) -> None:
    template["Resources"]["OpsBucket"]["DeletionPolicy"] = "Delete"


@breaks(promises.the_ops_bucket_keeps_everything)
def a_bucket_that_can_be_made_public(template: Template) -> None:
    _properties(template, "OpsBucket")["PublicAccessBlockConfiguration"]["BlockPublicPolicy"] = False


@breaks(promises.the_ops_bucket_keeps_everything)
def no_encryption(template: Template) -> None:
    del _properties(template, "OpsBucket")["BucketEncryption"]


@breaks(promises.the_ops_bucket_keeps_everything)
def no_versions(template: Template) -> None:
    _properties(template, "OpsBucket")["VersioningConfiguration"]["Status"] = "Suspended"


@breaks(access.functions_may_do_what_they_call_and_no_more)
def no_right_to_commit(template: Template) -> None:
    _statement(template, "CommitterRole", "S3TablesTables")["Action"].remove("s3tables:UpdateTableMetadataLocation")


@breaks(access.functions_may_do_what_they_call_and_no_more)
def no_right_to_commit_in_glue(template: Template) -> None:
    _statement(template, "CommitterRole", "GlueCatalog")["Action"].remove("glue:UpdateTable")


@breaks(access.functions_may_do_what_they_call_and_no_more)
def no_right_to_delete_messages(template: Template) -> None:
    _statement(template, "CommitterRole", "Dequeue")["Action"].remove("sqs:DeleteMessage")


@breaks(access.functions_may_do_what_they_call_and_no_more)
def no_right_to_send(template: Template) -> None:
    _drop(template, "WriterRole", "Enqueue")


@breaks(access.functions_may_do_what_they_call_and_no_more)
def missing_objects_look_denied(template: Template) -> None:
    _drop(template, "CommitterRole", "MissingIsNotDenied")


@breaks(access.functions_may_do_what_they_call_and_no_more)
def no_right_to_read_the_settings(template: Template) -> None:
    _drop(template, "WriterRole", "ReadSettings")


@breaks(access.functions_may_do_what_they_call_and_no_more)
def no_right_to_segments(template: Template) -> None:
    _statement(template, "CommitterRole", "OpsWrite")["Resource"].pop(0)


@breaks(access.functions_may_do_what_they_call_and_no_more)
def no_right_to_the_secret(template: Template) -> None:
    _drop(template, "WriterRole", "KafkaSecret")


@breaks(access.functions_may_do_what_they_call_and_no_more)
def a_writer_that_may_commit(template: Template) -> None:
    _statement(template, "WriterRole", "S3TablesTables")["Action"].append("s3tables:DeleteTable")


@breaks(access.functions_may_do_what_they_call_and_no_more)
def every_object_of_the_ops_bucket(template: Template) -> None:
    _statement(template, "WriterRole", "OpsWrite")["Resource"] = {"Fn::Sub": "${OpsBucket.Arn}/*"}


@breaks(access.functions_may_do_what_they_call_and_no_more)
def one_role_for_both(template: Template) -> None:
    _properties(template, "Writer")["Role"] = {"Fn::GetAtt": ["CommitterRole", "Arn"]}


@breaks(access.functions_may_do_what_they_call_and_no_more)
def no_right_to_secrets_that_are_referred_to(template: Template) -> None:
    _drop(template, "WriterRole", "ReadSecrets")


@breaks(access.functions_may_do_what_they_call_and_no_more)
def no_right_to_parameters_that_are_referred_to(template: Template) -> None:
    _drop(template, "CommitterRole", "ReadParameters")


@breaks(access.functions_may_do_what_they_call_and_no_more)
def no_right_to_the_secrets_key(template: Template) -> None:
    _drop(template, "CommitterRole", "DecryptSecrets")


@breaks(access.functions_may_do_what_they_call_and_no_more)
def no_right_to_assume_the_roles(template: Template) -> None:
    _drop(template, "WriterRole", "AssumeRoles")


@breaks(access.functions_may_do_what_they_call_and_no_more)
def all_secrets_of_the_account(template: Template) -> None:
    _statement(template, "WriterRole", "ReadSecrets")["Resource"] = "*"


@breaks(access.functions_may_do_what_they_call_and_no_more)
def all_roles_that_trust_it(template: Template) -> None:
    _statement(template, "CommitterRole", "AssumeRoles")["Resource"] = "*"


@breaks(access.functions_may_do_what_they_call_and_no_more)
def all_parameters_below_a_path(template: Template) -> None:
    statement = _statement(template, "CommitterRole", "ReadParameters")
    statement["Action"] = ["ssm:GetParameter", "ssm:GetParametersByPath"]


@breaks(access.functions_may_do_what_they_call_and_no_more)
def a_statement_about_no_secret(template: Template) -> None:
    statement = _statement(template, "CommitterRole", "ReadSecrets")
    _drop(template, "CommitterRole", "ReadSecrets")
    _statements(template, "CommitterRole").append(statement)


@breaks(access.functions_may_do_what_they_call_and_no_more)
def secrets_only_beside_parameters(template: Template) -> None:
    template["Conditions"]["ReadsSecrets"] = {"Condition": "ReadsParameters"}


@breaks(access.keys_open_secrets_and_nothing_else)
def keys_that_open_everything(template: Template) -> None:
    del _statement(template, "WriterRole", "DecryptSecrets")["Condition"]


@breaks(access.the_operator_names_one_by_one)
def secrets_by_any_pattern(template: Template) -> None:
    template["Parameters"]["SecretArns"]["AllowedPattern"] = "^$|^arn:[a-z-]+:secretsmanager:.+$"


@breaks(access.the_operator_names_one_by_one)
def parameters_without_a_pattern(template: Template) -> None:
    del template["Parameters"]["ParameterArns"]["AllowedPattern"]


@breaks(access.the_operator_names_one_by_one)
def keys_by_their_aliases(template: Template) -> None:
    template["Parameters"]["KmsKeyArns"]["AllowedPattern"] = "^$|^arn:[a-z-]+:kms:[a-z0-9-]+:[0-9]{12}:[a-z]+/[a-z0-9-]+$"


@breaks(access.the_operator_names_one_by_one)
def one_role_and_no_more(template: Template) -> None:
    template["Parameters"]["AssumeRoleArns"]["Type"] = "String"


@breaks(access.nobody_else_is_let_in)
def a_role_for_everybody(template: Template) -> None:
    _properties(template, "WriterRole")["AssumeRolePolicyDocument"]["Statement"][0]["Principal"] = "*"


@breaks(access.nobody_else_is_let_in)
def a_managed_policy(template: Template) -> None:
    _properties(template, "CommitterRole")["ManagedPolicyArns"] = ["arn:aws:iam::aws:policy/AmazonS3FullAccess"]


@breaks(access.nobody_else_is_let_in)
def a_queue_that_takes_anybodys_messages(template: Template) -> None:
    _properties(template, "CommitQueuePolicy")["PolicyDocument"]["Statement"][0]["Effect"] = "Allow"


@breaks(observing.logs_are_json_and_kept_for_a_while)
def text_logs(template: Template) -> None:
    _properties(template, "Writer")["LoggingConfig"]["LogFormat"] = "Text"


@breaks(observing.logs_are_json_and_kept_for_a_while)
def logs_for_ever(template: Template) -> None:
    del _properties(template, "CommitterLog")["RetentionInDays"]


@breaks(observing.logs_are_json_and_kept_for_a_while)
def a_level_that_drops_metrics(template: Template) -> None:
    template["Parameters"]["LogLevel"]["AllowedValues"].append("WARN")


@breaks(observing.alarms_rest_on_metrics_that_somebody_measures)
def a_misspelt_metric(template: Template) -> None:
    _properties(template, "DeadLettersAlarm")["MetricName"] = "DeadLetter"


@breaks(observing.alarms_rest_on_metrics_that_somebody_measures)
def a_metric_of_the_other_function(template: Template) -> None:
    _properties(template, "TableFailuresAlarm")["Dimensions"][0]["Value"] = {"Ref": "Writer"}


@breaks(observing.alarms_rest_on_metrics_that_somebody_measures)
def a_dimension_that_does_not_exist(template: Template) -> None:
    _properties(template, "UnknownOutcomesAlarm")["Dimensions"][0]["Name"] = "FunctionName"


@breaks(observing.alarms_rest_on_metrics_that_somebody_measures)
def aws_metric_by_a_dimension_of_ours(template: Template) -> None:
    _properties(template, "WriterErrorsAlarm")["Dimensions"][0]["Name"] = "Function"


@breaks(observing.alarms_rest_on_metrics_that_somebody_measures)
def a_period_of_ninety_seconds(template: Template) -> None:
    _properties(template, "DeadLettersAlarm")["Period"] = 90


@breaks(observing.alarms_tell_somebody_what_to_do)
def an_alarm_nobody_hears(template: Template) -> None:
    del _properties(template, "QuarantineAlarm")["AlarmActions"]


@breaks(observing.alarms_tell_somebody_what_to_do)
def an_alarm_without_advice(template: Template) -> None:
    _properties(template, "SourcesStoppedAlarm")["AlarmDescription"] = "A source stopped."


@breaks(observing.what_calls_for_an_alarm_has_one)
def no_alarm_on_quarantine(template: Template) -> None:
    del template["Resources"]["QuarantineAlarm"]


@breaks(observing.what_calls_for_an_alarm_has_one)
def no_alarm_on_a_silent_committer(template: Template) -> None:
    del template["Resources"]["CommitterSilentAlarm"]


@breaks(observing.what_calls_for_an_alarm_has_one)
def no_alarm_on_messages_that_find_no_committer(template: Template) -> None:
    del template["Resources"]["CommitterThrottlesAlarm"]


@breaks(observing.alarms_look_back_to_when_messages_came_last)
def an_alarm_that_forgets_the_failure_before(template: Template) -> None:
    _properties(template, "TableFailuresAlarm")["EvaluationPeriods"] = 3


@breaks(observing.alarms_look_back_to_when_messages_came_last)
def an_alarm_that_waits_for_too_many_deaths(template: Template) -> None:
    _properties(template, "RoundsUnendedAlarm")["DatapointsToAlarm"] = 6


@breaks(observing.the_dashboard_shows_metrics_that_somebody_measures)
def a_graph_that_stays_empty(template: Template) -> None:
    body = _properties(template, "Dashboard")["DashboardBody"]
    body["Fn::Sub"] = body["Fn::Sub"].replace("RecordsWritten", "RowsWritten")
