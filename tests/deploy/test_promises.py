"""The template keeps its promises, and each promise is seen broken when the template is spoiled."""

from __future__ import annotations

import copy
import re
from typing import Any

import code_of_functions as code
import pytest
from cloudformation import REPOSITORY, Stack, source, transformed, yaml_parse
from promises import LETS_RECORDS_GO, PROMISES, SCENARIOS, TABLE_BUCKET, faults
from spoiling import SPOILED

TEMPLATE = source()
STARTERS = ("AWS::Lambda::EventSourceMapping", "AWS::Scheduler::Schedule")


@pytest.mark.parametrize("promise", PROMISES)
def test_the_promise_is_kept(promise: str):
    assert faults(transformed(TEMPLATE), promise) == []


@pytest.mark.parametrize(("promise", "spoiled"), SPOILED, ids=[f"{one}-{how.__name__}" for one, how in SPOILED])
def test_a_spoiled_template_breaks_its_promise(promise: str, spoiled: Any):
    template = copy.deepcopy(TEMPLATE)
    spoiled(template)
    assert faults(transformed(template), promise), "nobody noticed"


def test_each_promise_has_been_seen_broken():
    assert {promise for promise, _ in SPOILED} == set(PROMISES)


def test_the_scenarios_take_every_branch():
    conditions = TEMPLATE["Conditions"]
    stacks = [Stack(TEMPLATE, given) for given in SCENARIOS.values()]
    # Only where an account is too small or the pipeline rests.
    seldom_otherwise = {"ReservesCommitter", "CommitterPauses"}
    for name in conditions.keys() - seldom_otherwise:
        assert {stack.holds(name) for stack in stacks} == {True, False}, name


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"SettingsUri": ""}, "Give either SettingsUri or Settings."),
        ({"Settings": "pipeline = 'shop'"}, "Give either SettingsUri or Settings."),
        ({"MskClusterArn": ""}, "Give either MskClusterArn or KafkaBootstrapServers."),
        ({"KafkaBootstrapServers": "b:9092"}, "Give either MskClusterArn or KafkaBootstrapServers."),
        ({"TableBucketArn": ""}, "s3-tables needs TableBucketArn."),
        ({"Catalog": "glue"}, "glue needs WarehouseBucket."),
    ],
)
def test_parameters_that_make_no_pipeline_are_refused_before_anything_is_made(change: dict[str, str], said: str):
    given = {**SCENARIOS["MSK by IAM into S3 Tables"], **change}
    assert Stack(TEMPLATE, given).broken_rules() == [said]


@pytest.mark.parametrize(
    "change",
    [
        {"StartingPosition": "FOO"},
        {"StartingPosition": "AT_TIMESTAMP"},
        {"LogLevel": "WARN"},
        {"BatchSize": "10001"},
        {"TableBucketArn": TABLE_BUCKET + "/table/x"},
        {"SettingsUri": "conf/icefall.toml"},
        {"StoreKeysSecretArn": "AKIAEXAMPLE:hush"},
        {"SecretArns": "icefall/store"},
        {"CommitterTrigger": "both"},
    ],
)
def test_values_that_can_not_work_are_refused(change: dict[str, str]):
    given = {**SCENARIOS["MSK by IAM into S3 Tables"], **change}
    assert Stack(TEMPLATE, given).refused_parameters() == list(change)


@pytest.mark.parametrize("trigger", ["schedule", "queue"])
def test_a_committer_that_pauses_is_started_by_nobody(trigger: str):
    given = {**SCENARIOS["MSK by IAM into S3 Tables"], "CommitterTrigger": trigger, "ScheduleState": "DISABLED"}
    stack = Stack(transformed(TEMPLATE), given)
    started = [one["Properties"] for one in stack.resources.values() if one["Type"] in STARTERS]
    by = [one.get("State", one.get("Enabled")) for one in started if "<Committer" in str(one)]
    assert by == (["DISABLED"] if trigger == "schedule" else [False, "DISABLED"])


def test_the_commands_of_the_readme_make_a_stack():
    text = (REPOSITORY / "README.md").read_text()
    command = re.search(r"sam deploy .*?```", text, re.DOTALL)[0]
    given = dict(re.findall(r"(\w+)=(\S+)", command))
    stack = Stack(TEMPLATE, given)
    assert len(given) == 4 and (stack.refused_parameters(), stack.broken_rules()) == ([], [])


def test_what_the_documentation_names_one_by_one_is_taken():
    named = dict(re.findall(r"(\w+Arns)=(\S+)", (REPOSITORY / "infra/README.md").read_text()))
    given = {**SCENARIOS["MSK by IAM into S3 Tables"], **named}
    assert len(named) == 3 and Stack(TEMPLATE, given).refused_parameters() == []


def test_the_further_mapping_of_the_documentation_lets_no_record_go():
    text = (REPOSITORY / "infra/README.md").read_text()
    (mapping,) = yaml_parse(re.search(r"```yaml\n(.*?)```", text, re.DOTALL)[1]).values()
    ours = TEMPLATE["Resources"]["MskMapping"]["Properties"]
    assert mapping["Type"] == TEMPLATE["Resources"]["MskMapping"]["Type"]
    assert mapping["Properties"].keys() <= ours.keys() - set(LETS_RECORDS_GO)


def test_every_listed_metric_is_measured_by_somebody():
    assert {name for name, by in code.emitters().items() if not by} == set()


def test_what_is_read_from_the_sources_is_read_at_all():
    """Were a pattern to find nothing, promises would rest on it."""
    assert code.calls("writer", "queue") >= {"send"}
    assert code.calls("committer", "queue") >= {"receive", "delete"}
    assert code.calls("committer", "catalog") >= {"load_table", "commit", "create_table", "create_namespace"}
    assert code.object_calls("writer") == {"put"}
    assert {one for one in code.FUNCTIONS if code.reads_settings(one)} == set(code.FUNCTIONS)
    assert code.secret_actions() == {"secretsmanager:GetSecretValue", "ssm:GetParameter"} and code.assumes_roles()
    assert code.heartbeat_slots() > 1
    assert code.ops_bucket_layout()["write"]["committer"] >= {"segments", "register", "heartbeat"}
    assert {"queue.url", "catalog.sign.name", "store.credentials.secret_access_key"} <= code.settings_keys()
    assert len(code.metrics()) > 20 and {"DeadLetters", "TableFailures"} <= code.metrics_that_call_for_an_alarm()
